"""The run directory: names of its files, and the locks that keep it to one run."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from shared.errors import InputError

RECORDED = "recorded"  # in samples/: what they should be like
REMARK = "remark.txt"  # in samples/step-…/: what is to be said of them

_UNFINISHED = re.compile(r"\..+\.(\d+)\.[0-9a-f]{8}")  # as `whole_file` names them
_DYING_S = 2.0
_LOOK_AGAIN_S = 0.05


def free_name(base: Path) -> Path:
    """`base`, or with the first number behind it of which there is none yet."""
    candidate, number = base, 1
    while candidate.exists():
        number += 1
        candidate = base.with_name(f"{base.name}-{number}")
    return candidate


class RunDirectory:
    """Paths inside `runs/NAME`."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.environment = self.path / "environment.json"
        self.task = self.path / "task.json"
        self.index = self.path / "index.safetensors"
        self.metrics = self.path / "metrics.jsonl"
        self.audit = self.path / "audit.jsonl"
        self.quarantine = self.path / "quarantine.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.samples = self.path / "samples"
        self.tensorboard = self.path / "tensorboard"
        self.launcher_log = self.path / "launcher.log"
        self.hook_log = self.path / "on_event.log"
        self.events = self.path / "events.jsonl"
        self.status = self.path / "status.json"
        self.stop_request = self.path / ".stop"
        self.writer = self.path / ".writer"

    def log_of(self, worker: str) -> Path:
        return self.path / f"{worker}.log"

    def create(self) -> None:
        """Make the directory.

        Raises:
            InputError: it can't be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.path}: can't be made ({error.strerror}). Choose another --run-dir."
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise InputError(f"{self.path}: can't be written to. Choose another --run-dir.")

    def remove_leftovers(self) -> None:
        """Remove files that a killed process had not yet put in their places."""
        for path in self.path.glob(".*"):
            found = _UNFINISHED.fullmatch(path.name)
            if found and not Path(f"/proc/{found[1]}").exists():
                path.unlink(missing_ok=True)

    def lock_out_workers(self) -> None:
        """See that no model process that was started by hand is at work here.

        Raises:
            InputError: one is.
        """
        until_s = time.monotonic() + _DYING_S
        while True:
            try:
                os.close(self.lock("model process"))
                return
            except InputError:  # or one whose launcher was killed a moment ago
                if time.monotonic() > until_s:
                    raise
                time.sleep(_LOOK_AGAIN_S)

    def lock(self, role: str) -> int:
        """Take the role's lock for as long as this process lives; the kernel frees it at death.

        Raises:
            InputError: another process has it.
        """
        descriptor = os.open(
            self.path / f".{role}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise InputError(
                f"{self.path}: another {role} (pid {holder or 'unknown'}) is using this run "
                "directory. Wait for it to end, or choose another --run-dir (--run for workers "
                "started by hand)."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    def is_locked_by(self, pid: int) -> bool:
        """Whether a process holds the lock of a role here; what a file says of it proves nothing."""
        files = [self._identity_of(path) for path in self.path.glob(".*.lock")]
        try:
            held = [self._identity_of(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            return False  # another user's
        return any(each is not None and each in files for each in held)

    @staticmethod
    def _identity_of(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
