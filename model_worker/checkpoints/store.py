"""The checkpoints of a run: committed by one rename, and which of them is used, kept or removed.

What is in the folder of one is in `files`. It is recognised by its manifest, not by its name, and
no pointer says which is the newest: the serials in the manifests do. Steps do not: a run that had to
pass over step 900 goes on from 800, and its 850 is then the newest. Nothing here needs TensorFlow.

    checkpoints/step-00001234/     one of the last K
    checkpoints/best-00001200/     the best by validation: hard links into a folder of its own
    checkpoints/.tmp-…             unfinished or half removed; swept by `remove_leftovers`
"""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from model_worker.checkpoints.files import (
    BEST,
    FORMAT_VERSION,
    MANIFEST,
    STATE,
    Checkpoint,
    FileEntry,
    FolderWriter,
    Groups,
    Manifest,
    NotWhole,
    OsLayer,
    canonical,
    check_can_be_saved,
    in_words,
    missing_or_cut,
    read_checkpoint,
    read_manifest,
    refused,
    safetensors_chunks,
)
from shared.errors import CheckpointError, ConfigError

_Files = dict[str, Iterable[bytes | memoryview]]


class _Found(NamedTuple):
    """A folder that is a checkpoint by its manifest, whatever its other files are like."""

    path: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        return self.manifest["step"]

    @property
    def is_best(self) -> bool:
        return BEST in self.manifest["files"]

    @property
    def age(self) -> tuple[int, str]:
        """Larger for one that was saved later; the best is as old as the one it was made from."""
        serial = self.manifest["serial"]
        return self.manifest.get("serial_of_saved", serial), self.path.name


class _Unreadable(NamedTuple):
    """A folder that is known to be, or to have been, a checkpoint by its name alone."""

    path: Path
    step: int
    problem: NotWhole


_Candidate = _Found | _Unreadable


class CheckpointStore:
    """The checkpoints of one run; one process writes, others may read at the same time."""

    def __init__(
        self,
        directory: str | os.PathLike,
        keep_last: int = 3,
        *,
        os_layer: OsLayer | None = None,
        warn: Callable[[str], None] = logging.getLogger(__name__).warning,
        before_commit: Callable[[], None] = lambda: None,
    ):
        """Touches nothing on disk.

        Args:
            directory: the folder that holds the checkpoints; `save` makes it.
            keep_last: how many of the newest stay, beside the best.
            before_commit: called when all of a checkpoint is on disk but its name; it may raise.
            warn: told in a sentence what did not work but costs no checkpoint.
        """
        if keep_last < 1:
            raise ConfigError(f"keep_last is {keep_last}; expected an integer from 1 up.")
        self.directory = Path(directory)
        self.keep_last = keep_last
        self._disk = FolderWriter(os_layer)
        self._warn = warn
        self._before_commit = before_commit

    def save(self, step: int, groups: Groups, state: dict) -> Path:
        """Commits a checkpoint, then removes those that are older than the last K.

        Args:
            step: optimizer steps done; an older checkpoint of the same step is replaced.
            groups: arrays by name, of any shape, by group ("weights", "optimizer", "ema" …).
            state: anything that JSON can hold exactly, without NaN or infinity.

        Returns:
            The folder, durable on disk.

        Raises:
            NotFiniteError: an array holds NaN or infinity.
            CheckpointError: this one is not safe on disk; the checkpoints before are untouched.
        """
        for group, arrays in groups.items():
            check_can_be_saved(step, group, arrays)
        try:
            state_bytes = canonical(state)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"The state of step {step} was not saved: {error}. "
                "It must be plain JSON without NaN or infinity."
            ) from error
        files: _Files = {
            f"{group}.safetensors": safetensors_chunks(arrays) for group, arrays in groups.items()
        }
        files[STATE] = [state_bytes]
        path = self._commit("step", step, files, links={})
        self._prune(path, step)
        return path

    def load_latest(
        self,
        on_skip: Callable[[str], None] | None = None,
        only_groups: Iterable[str] | None = None,
    ) -> Checkpoint | None:
        """The newest checkpoint that is whole; None when there has never been one.

        Args:
            on_skip: told of each newer one that was passed over, and what is wrong with it.
            only_groups: read and verify only these groups (and the state).

        Raises:
            CheckpointError: there are checkpoints, and none of them can be used.
        """
        return self._first_usable(self._candidates, on_skip, only_groups)

    def load_best(
        self,
        on_skip: Callable[[str], None] | None = None,
        only_groups: Iterable[str] | None = None,
    ) -> Checkpoint | None:
        """The checkpoint last marked as the best; None when there is none. See `load_latest`."""
        return self._first_usable(self._marked_best, on_skip, only_groups)

    def mark_best(self, step: int, value: float) -> Path:
        """Keeps the checkpoint of `step` as the best, with the validation value that made it so.

        Raises:
            CheckpointError: there is no whole checkpoint of that step, or the disk refused. The
                best one before is untouched.
        """
        if not math.isfinite(value):
            raise CheckpointError(
                f"The validation loss of step {step} is not a number, so it is not kept as the "
                "best."
            )
        problems: list[str] = []
        for saved in self._found():
            if saved.step == step and not saved.is_best:
                problems = self.verify(saved.path)
                if not problems:
                    break
        else:
            raise CheckpointError(
                f"{self.directory}: there is no whole checkpoint of step {step} to keep as the "
                f"best. {'; '.join(problems) or 'Save it first'}."
            )
        before = self._marked_best()
        best = canonical({"step": step, "value": float(value)})
        entries = saved.manifest["files"].items()
        links = {name: (saved.path / name, entry) for name, entry in entries}
        best_path = self._commit("best", step, {BEST: [best]}, links, saved.manifest["serial"])
        for previous in before:
            self._remove(previous.path)
        return best_path

    @staticmethod
    def verify(path: str | os.PathLike) -> list[str]:
        """What is wrong with a checkpoint, one sentence each; empty when it is whole."""
        try:
            read_checkpoint(Path(path), None)
        except NotWhole as reason:
            return [f"{path}: {reason}"]
        return []

    def remove_leftovers(self) -> None:
        """Removes what processes that are gone left unfinished; for the start of a training run."""
        for path in self._entries():
            match = re.fullmatch(r"\.tmp-.*-(\d+)", path.name)
            if match and not _is_alive(int(match[1])):
                try:
                    self._disk.remove_files(path)
                except OSError as error:
                    self._warn(f"{path}: could not be removed ({in_words(error)}).")

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise refused(self.directory, "look for checkpoints", error) from error

    def _candidates(self) -> list[_Candidate]:
        """Every checkpoint, the one that was saved last first.

        One whose manifest can't be read stands before those of earlier steps, so that it is told
        about where it may have been the newest.
        """
        whole: list[_Found] = []
        unreadable: list[_Unreadable] = []
        for path in self._entries():
            if path.name.startswith(".") or not path.is_dir():
                continue
            try:
                whole.append(_Found(path, read_manifest(path)))
            except NotWhole as problem:
                named = re.match(r"(?:step|best)-(\d+)", path.name)
                if named or any((path / name).exists() for name in (MANIFEST, STATE)):
                    step = int(named[1]) if named else -1
                    unreadable.append(_Unreadable(path, step, problem))
        found: list[_Candidate] = [*sorted(whole, key=lambda each: each.age, reverse=True)]
        for one in sorted(unreadable, key=lambda each: (each.step, each.path.name)):
            earlier = (i for i, each in enumerate(found) if each.step < one.step)
            found.insert(next(earlier, len(found)), one)
        return found

    def _found(self) -> list[_Found]:
        """Those whose manifest can be read, the one that was saved last first."""
        return [each for each in self._candidates() if isinstance(each, _Found)]

    def _marked_best(self) -> list[_Found]:
        """Those marked as the best; more than one only after a crash, the last marked first."""
        marked = [found for found in self._found() if found.is_best]
        return sorted(marked, key=lambda found: -found.manifest["serial"])

    def _first_usable(
        self,
        find: Callable[[], Sequence[_Candidate]],
        on_skip: Callable[[str], None] | None,
        only_groups: Iterable[str] | None,
    ) -> Checkpoint | None:
        candidates, problems = find(), dict[Path, str]()
        while True:
            for each in candidates:
                path = each.path
                try:
                    if isinstance(each, _Unreadable):
                        raise each.problem  # not read again: nobody knew its turn
                    return read_checkpoint(path, only_groups)
                except NotWhole as reason:
                    # The training process may have removed it while we read: not a fault.
                    if path not in problems and path.exists():
                        problems[path] = f"{path}: {reason}"
                        if on_skip:
                            on_skip(f"Checkpoint {path} is passed over: {reason}.")
            found_before, candidates = candidates, find()
            if [each[:2] for each in candidates] == [each[:2] for each in found_before]:
                break
        if candidates:
            raise CheckpointError(
                f"None of the {len(problems)} checkpoints in {self.directory} can be used. "
                f"{'; '.join(problems.values())}. Put a copy back, or start over with --fresh."
            )
        return None

    def _commit(
        self,
        kind: str,
        step: int,
        files: _Files,
        links: dict[str, tuple[Path, FileEntry]],
        serial_of_saved: int | None = None,
    ) -> Path:
        """Writes a folder beside the others and gives it its name when all of it is on disk.

        Args:
            files: {name: iterable of bytes}. links: {name: (existing file, manifest entry)}.
            serial_of_saved: of the checkpoint that the links lead to, where there are any.
        """
        temporary = self.directory / f".tmp-{step}-{os.getpid()}"
        try:
            self._disk.make_directory(self.directory)
            self._disk.new_folder(temporary)
            entries = {
                name: self._disk.link(temporary / name, *link) for name, link in links.items()
            }
            for name, chunks in files.items():
                entries[name] = self._disk.write(temporary / name, chunks)
            manifest: Manifest = {
                "format_version": FORMAT_VERSION,
                "step": step,
                "serial": self._next_serial(),
                "files": entries,
            }
            if serial_of_saved is not None:
                manifest["serial_of_saved"] = serial_of_saved
            self._disk.write_manifest(temporary, manifest)
            path = self._free_name(kind, step)
            self._before_commit()
            self._disk.rename(temporary, path)
            self._disk.fsync_directory(self.directory)
            return path
        except BaseException as error:
            with suppress(OSError):
                self._disk.remove_files(temporary)
            if isinstance(error, OSError):
                place = error.filename or temporary
                raise refused(place, f"save the checkpoint of step {step}", error) from error
            raise

    def _next_serial(self) -> int:
        """Larger than that of every checkpoint before, also of one that can't be read just now.

        Hence the clock. It may be set back, and then counting on from those that can be read is
        what is left.
        """
        known = [found.manifest["serial"] for found in self._found()]
        return max(time.time_ns() // 1000, max(known, default=0) + 1)

    def _free_name(self, kind: str, step: int) -> Path:
        """A name that is not taken: to replace a folder in place can't be done in one step."""
        path, attempt = self.directory / f"{kind}-{step:08d}", 1
        while os.path.lexists(path):
            attempt += 1
            path = self.directory / f"{kind}-{step:08d}-{attempt}"
        return path

    def _prune(self, saved: Path, step: int) -> None:
        """Removes what is older than the last K that look whole; never the one just saved.

        Folders of later steps and of newer formats are not ours to judge, and stay.
        """
        kept = 1
        for found in self._found():
            if found.path == saved or found.is_best or found.step > step:
                continue
            if found.step == step or kept >= self.keep_last:
                self._remove(found.path)
            elif not missing_or_cut(found.path, found.manifest):
                kept += 1

    def _remove(self, path: Path) -> None:
        """Removes a folder; hidden first, so that a crash half way leaves no half checkpoint."""
        hidden = self.directory / f".tmp-removed-{path.name}-{os.getpid()}"
        try:
            self._disk.rename(path, hidden)
            self._disk.remove_files(hidden)
        except OSError as error:
            self._warn(f"{path}: the old checkpoint could not be removed ({in_words(error)}).")


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():  # whoever had our number before us is gone
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
