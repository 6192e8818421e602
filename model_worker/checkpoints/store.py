"""Checkpoints on disk: written beside, committed by one rename, verified before they are used.

A checkpoint is a folder with one safetensors file per group of arrays, a `state.json`, and a
`manifest.json` with the size and SHA-256 of each file. It is recognised by that manifest, not by
its name, and no pointer says which is the newest: the serials in the manifests do. Steps do not: a
run that had to pass over step 900 goes on from 800, and its 850 is then the newest. Nothing here
needs TensorFlow.

    checkpoints/step-00001234/     one of the last K
    checkpoints/best-00001200/     the best by validation: hard links into a folder of its own
    checkpoints/.tmp-…             unfinished or half removed; swept by `remove_leftovers`
"""

import errno
import hashlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from shared.errors import CheckpointError, ConfigError

FORMAT_VERSION = 1
MANIFEST, STATE, BEST = "manifest.json", "state.json", "best.json"
MAX_MANIFEST_BYTES = 1 << 20
WRITE_BYTES = 16 << 20

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_LINKS_NOT_POSSIBLE = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}

Groups = dict[str, dict[str, np.ndarray]]


class OsLayer:
    """The calls that change the disk; a test puts its own in their place to interrupt them."""

    mkdir = staticmethod(os.mkdir)
    open = staticmethod(os.open)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    link = staticmethod(os.link)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A verified checkpoint.

    step: optimizer steps done when it was taken. groups: {group: {name: array}}, as saved.
    """

    path: Path
    step: int
    groups: Groups
    state: dict


class NotFiniteError(CheckpointError):
    """What was to be saved holds NaN or infinity: it is the training that broke, not the disk."""


class _Unusable(Exception):
    """Why a folder can't be used as a checkpoint, in words that follow its path and a colon."""


class _Found(NamedTuple):
    """A folder that is, or was, a checkpoint; without a manifest it is known only by its name."""

    step: int
    path: Path
    manifest: dict | None
    problem: _Unusable | None = None  # why there is no manifest

    @property
    def age(self) -> tuple[int, str]:
        """Larger for one that was saved later; the best is as old as the one it was made from."""
        serial = self.manifest["serial"]
        return self.manifest.get("serial_of_saved", serial), self.path.name


class CheckpointStore:
    """The checkpoints of one run; one process writes, others may read at the same time."""

    def __init__(
        self,
        directory: str | os.PathLike,
        keep_last: int = 3,
        *,
        os_layer: OsLayer | None = None,
        warn: Callable[[str], None] = logging.getLogger(__name__).warning,
    ):
        """Touches nothing on disk.

        Args:
            directory: the folder that holds the checkpoints; `save` makes it.
            keep_last: how many of the newest stay, beside the best.
            warn: told in a sentence what did not work but costs no checkpoint.
        """
        if keep_last < 1:
            raise ConfigError(f"keep_last is {keep_last}; expected an integer from 1 up.")
        self.directory = Path(directory)
        self.keep_last = keep_last
        self._os = os_layer or OsLayer()
        self._warn = warn

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
            _check_can_be_saved(step, group, arrays)
        try:
            state_bytes = _canonical(state)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"The state of step {step} was not saved: {error}. "
                "It must be plain JSON without NaN or infinity."
            ) from error
        files = {
            f"{group}.safetensors": _safetensors_chunks(arrays) for group, arrays in groups.items()
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
        problems = []
        for _, path, manifest, _ in self._candidates():
            if manifest and manifest["step"] == step and BEST not in manifest["files"]:
                problems = self.verify(path)
                if not problems:
                    break
        else:
            raise CheckpointError(
                f"{self.directory}: there is no whole checkpoint of step {step} to keep as the "
                f"best. {'; '.join(problems) or 'Save it first'}."
            )
        before = self._marked_best()
        best = _canonical({"step": step, "value": float(value)})
        links = {name: (path / name, entry) for name, entry in manifest["files"].items()}
        best_path = self._commit("best", step, {BEST: [best]}, links, manifest["serial"])
        for previous in before:
            self._remove(previous.path)
        return best_path

    @staticmethod
    def verify(path: str | os.PathLike) -> list[str]:
        """What is wrong with a checkpoint, one sentence each; empty when it is whole."""
        try:
            _read_checkpoint(Path(path), None)
        except _Unusable as reason:
            return [f"{path}: {reason}"]
        return []

    def remove_leftovers(self) -> None:
        """Removes what processes that are gone left unfinished; for the start of a training run."""
        for path in self._entries():
            match = re.fullmatch(r"\.tmp-.*-(\d+)", path.name)
            if match and not _is_alive(int(match[1])):
                try:
                    self._remove_files(path)
                except OSError as error:
                    self._warn(f"{path}: could not be removed ({_in_words(error)}).")

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _refused(self.directory, "look for checkpoints", error) from error

    def _candidates(self) -> list[_Found]:
        """Every checkpoint, the one that was saved last first.

        One whose manifest can't be read stands before those of earlier steps, so that it is told
        about where it may have been the newest.
        """
        found, unreadable = [], []
        for path in self._entries():
            if path.name.startswith(".") or not path.is_dir():
                continue
            try:
                manifest = _read_manifest(path)
                found.append(_Found(manifest["step"], path, manifest))
            except _Unusable as problem:
                named = re.match(r"(?:step|best)-(\d+)", path.name)
                if named or any((path / name).exists() for name in (MANIFEST, STATE)):
                    unreadable.append(_Found(int(named[1]) if named else -1, path, None, problem))
        found.sort(key=lambda each: each.age, reverse=True)
        for one in sorted(unreadable, key=lambda each: (each.step, each.path.name)):
            earlier = (i for i, each in enumerate(found) if each.step < one.step)
            found.insert(next(earlier, len(found)), one)
        return found

    def _marked_best(self) -> list[_Found]:
        """Those marked as the best; more than one only after a crash, the last marked first."""
        readable = [found for found in self._candidates() if found.manifest]
        marked = [found for found in readable if BEST in found.manifest["files"]]
        return sorted(marked, key=lambda found: -found.manifest["serial"])

    def _first_usable(self, find, on_skip, only_groups) -> Checkpoint | None:
        candidates, problems = find(), {}
        while True:
            for _, path, _, problem in candidates:
                try:
                    if problem:  # not read again: without its serial nobody knew its turn
                        raise problem
                    return _read_checkpoint(path, only_groups)
                except _Unusable as reason:
                    # The training process may have removed it while we read: not a fault.
                    if path not in problems and path.exists():
                        problems[path] = f"{path}: {reason}"
                        if on_skip:
                            on_skip(f"Checkpoint {path} is passed over: {reason}.")
            found_before, candidates = candidates, find()
            if [found[:3] for found in candidates] == [found[:3] for found in found_before]:
                break
        if candidates:
            raise CheckpointError(
                f"None of the {len(problems)} checkpoints in {self.directory} can be used. "
                f"{'; '.join(problems.values())}. Put a copy back, or start over with --fresh."
            )
        return None

    def _commit(
        self, kind: str, step: int, files: dict, links: dict, serial_of_saved: int | None = None
    ) -> Path:
        """Writes a folder beside the others and gives it its name when all of it is on disk.

        Args:
            files: {name: iterable of bytes}. links: {name: (existing file, manifest entry)}.
            serial_of_saved: of the checkpoint that the links lead to, where there are any.
        """
        temporary = self.directory / f".tmp-{step}-{os.getpid()}"
        try:
            self._make_directory()
            self._remove_files(temporary)
            self._os.mkdir(temporary)
            entries = {name: self._link(temporary / name, *link) for name, link in links.items()}
            for name, chunks in files.items():
                entries[name] = self._write(temporary / name, chunks)
            manifest = {
                "format_version": FORMAT_VERSION,
                "step": step,
                "serial": self._next_serial(),
                "files": entries,
            }
            if serial_of_saved is not None:
                manifest["serial_of_saved"] = serial_of_saved
            self._write(temporary / MANIFEST, [_sealed(manifest)])
            self._fsync_directory(temporary)
            path = self._free_name(kind, step)
            self._os.rename(temporary, path)
            self._fsync_directory(self.directory)
            return path
        except BaseException as error:
            with suppress(OSError):
                self._remove_files(temporary)
            if isinstance(error, OSError):
                place = error.filename or temporary
                raise _refused(place, f"save the checkpoint of step {step}", error) from error
            raise

    def _next_serial(self) -> int:
        """Larger than that of every checkpoint before, also of one that can't be read just now.

        Hence the clock. It may be set back, and then counting on from those that can be read is
        what is left.
        """
        known = [found.manifest["serial"] for found in self._candidates() if found.manifest]
        return max(time.time_ns() // 1000, max(known, default=0) + 1)

    def _make_directory(self) -> None:
        missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        for path in reversed(missing):
            self._os.mkdir(path)
            self._fsync_directory(path.parent)

    def _free_name(self, kind: str, step: int) -> Path:
        """A name that is not taken: to replace a folder in place can't be done in one step."""
        path, attempt = self.directory / f"{kind}-{step:08d}", 1
        while os.path.lexists(path):
            attempt += 1
            path = self.directory / f"{kind}-{step:08d}-{attempt}"
        return path

    def _write(self, path: Path, chunks: Iterable) -> dict:
        """Writes and fsyncs a new file; returns its entry in the manifest."""
        digest, size = hashlib.sha256(), 0
        descriptor = self._os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                left = memoryview(chunk)
                while left:
                    left = left[self._os.write(descriptor, left[:WRITE_BYTES]) :]
            self._os.fsync(descriptor)
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        finally:
            self._os.close(descriptor)
        return {"bytes": size, "sha256": digest.hexdigest()}

    def _link(self, path: Path, source: Path, entry: dict) -> dict:
        try:
            self._os.link(source, path)
        except OSError as error:
            if error.errno not in _LINKS_NOT_POSSIBLE:
                raise
            return self._write(path, [source.read_bytes()])
        return entry

    def _fsync_directory(self, path: Path) -> None:
        descriptor = self._os.open(path, os.O_RDONLY | os.O_DIRECTORY, 0)
        try:
            self._os.fsync(descriptor)
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        finally:
            self._os.close(descriptor)

    def _prune(self, saved: Path, step: int) -> None:
        """Removes what is older than the last K that look whole; never the one just saved.

        Folders of later steps and of newer formats are not ours to judge, and stay.
        """
        kept = 1
        for found_step, path, manifest, _ in self._candidates():
            if path == saved or manifest is None or BEST in manifest["files"] or found_step > step:
                continue
            if found_step == step or kept >= self.keep_last:
                self._remove(path)
            elif not _missing_or_cut(path, manifest):
                kept += 1

    def _remove(self, path: Path) -> None:
        """Removes a folder; hidden first, so that a crash half way leaves no half checkpoint."""
        hidden = self.directory / f".tmp-removed-{path.name}-{os.getpid()}"
        try:
            self._os.rename(path, hidden)
            self._remove_files(hidden)
        except OSError as error:
            self._warn(f"{path}: the old checkpoint could not be removed ({_in_words(error)}).")

    def _remove_files(self, folder: Path) -> None:
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            self._os.unlink(path)
        self._os.rmdir(folder)


def _in_words(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    return f"{os.strerror(error.errno)}, {errno.errorcode.get(error.errno, error.errno)}"


def _refused(path, intention: str, error: OSError) -> CheckpointError:
    remedy = {
        errno.ENOSPC: "Free some space on that disk, or keep fewer checkpoints.",
        errno.EDQUOT: "Your quota on that disk is used up: free some space.",
        errno.EACCES: "Give this user the right to write there.",
        errno.EROFS: "The disk is mounted read-only: choose another --run-dir.",
    }.get(error.errno, "Look at the disk and its mount.")
    return CheckpointError(
        f"{path}: could not {intention}: {_in_words(error)}. "
        f"The checkpoints before it are untouched. {remedy}"
    )


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


def _canonical(value) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _sealed(manifest: dict) -> bytes:
    """The manifest's bytes, with its own SHA-256 inside."""
    return _canonical({**manifest, "sha256": hashlib.sha256(_canonical(manifest)).hexdigest()})


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def _check_can_be_saved(step: int, group: str, arrays: dict[str, np.ndarray]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_]+", group):
        raise CheckpointError(f"{group!r} can't name a group; use letters, digits and '_'.")
    for name, array in arrays.items():
        where = f"Step {step} was not saved: {group}/{name}"
        if name == "__metadata__" or np.asarray(array).dtype.name not in _DTYPES:
            raise CheckpointError(
                f"{where} is of type {np.asarray(array).dtype}; expected one of "
                f"{', '.join(_DTYPES)} (and any name but __metadata__)."
            )
        if not _is_finite(np.asarray(array)):
            raise NotFiniteError(
                f"{where} holds NaN or infinity. The checkpoints before it are untouched."
            )


def _safetensors_chunks(arrays: dict[str, np.ndarray]):
    """Yields a safetensors file without ever holding a copy of all arrays."""
    header, offset = {}, 0
    # Wide types first: every array is then aligned to its own size.
    order = sorted(arrays, key=lambda name: (-np.asarray(arrays[name]).dtype.itemsize, name))
    for name in order:
        array = np.asarray(arrays[name])
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        array = np.asarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        yield memoryview(array.reshape(-1).view(np.uint8))


def _read_manifest(path: Path) -> dict:
    try:
        with open(path / MANIFEST, "rb") as file:
            raw = file.read(MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise _Unusable(f"it has no {MANIFEST}, so it was never finished") from None
    except OSError as error:
        raise _Unusable(f"{MANIFEST} can't be read ({_in_words(error)})") from error
    try:
        manifest = json.loads(raw)
        version = manifest["format_version"]
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise _Unusable(
                f"it has checkpoint format {version} and this version of Tandem reads up to "
                f"{FORMAT_VERSION}; a newer Tandem wrote it"
            )
        # The exact bytes, not only the values: no bit of the manifest is without meaning.
        if raw == _sealed({key: value for key, value in manifest.items() if key != "sha256"}):
            names = manifest["files"].keys()
            numbers = [manifest["step"], manifest["serial"], manifest.get("serial_of_saved", 0)]
            numbers += [entry["bytes"] for entry in manifest["files"].values()]
            if (
                STATE in names
                and all(re.fullmatch(r"\w+\.(safetensors|json)", name) for name in names)
                and all(isinstance(number, int) for number in numbers)
            ):
                return manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise _Unusable(f"{MANIFEST} is damaged")


def _missing_or_cut(path: Path, manifest: dict) -> bool:
    try:
        return any(
            (path / name).stat().st_size != entry["bytes"]
            for name, entry in manifest["files"].items()
        )
    except OSError:
        return True


def _read_checkpoint(path: Path, only_groups: Iterable[str] | None) -> Checkpoint:
    manifest = _read_manifest(path)
    suffix = ".safetensors"
    groups, documents = {}, {}
    names = sorted(manifest["files"])
    if only_groups is not None:
        wanted = {f"{group}{suffix}" for group in only_groups}
        if missing := wanted - set(names):
            raise _Unusable(f"it has no {', '.join(sorted(missing))}")
        names = [name for name in names if name in wanted or not name.endswith(suffix)]
    for name in names:
        raw = _read_verified(path / name, manifest["files"][name])
        try:
            if name.endswith(suffix):
                arrays = groups[name.removesuffix(suffix)] = safetensors.numpy.load(raw)
                for array_name, array in arrays.items():
                    if not _is_finite(array):
                        raise _Unusable(f"{name} holds NaN or infinity in {array_name}")
            else:
                documents[name] = json.loads(raw)
        except (ValueError, KeyError, RecursionError, safetensors.SafetensorError) as error:
            raise _Unusable(f"{name} can't be read ({error})") from error
    if not all(isinstance(document, dict) for document in documents.values()):
        raise _Unusable("its state is not a JSON object")
    return Checkpoint(path, manifest["step"], groups, documents[STATE])


def _read_verified(path: Path, entry: dict) -> bytes:
    """The bytes of a file that are known to be those that were written."""
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise _Unusable(f"{path.name} has {size:,} bytes instead of {entry['bytes']:,}")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise _Unusable(f"{path.name} is missing") from None
    except OSError as error:
        raise _Unusable(f"{path.name} can't be read ({_in_words(error)})") from error
    if hashlib.sha256(raw).hexdigest() != entry.get("sha256"):
        raise _Unusable(f"{path.name} is not what was written (its SHA-256 differs)")
    return raw
