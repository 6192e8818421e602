"""A check as a child process: started, and what it tells taken line by line."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Sequence
from pathlib import Path

from shared.devices.gpus import Gpu, worker_environment
from shared.errors import TandemError
from shared.worker.check_lines import CheckLine, Failed, decode
from shared.worker.child_environment import child_environment
from shared.worker.contract import ROLE_VARIABLE


@dataclasses.dataclass(frozen=True)
class CheckFindings:
    """What a check told, and how it ended."""

    lines: list[CheckLine]
    problem: str = ""  # in words
    status: int = 0

    def sound(self) -> list[CheckLine]:
        """The lines of a check that found nothing wrong.

        Raises:
            TandemError: it did.
        """
        if self.problem:
            raise TandemError(self.problem)
        return self.lines


def findings_of(
    command: Sequence[str],
    role: str,
    log: Path,
    gpu: Gpu | None = None,
    deadline_s: float | None = None,
) -> CheckFindings:
    """Run a check of a role on a GPU, or on the CPU; what libraries print goes into the log."""
    with open(log, "wb") as errors:
        try:
            child = subprocess.run(
                command,
                env=child_environment({**worker_environment(gpu), ROLE_VARIABLE: role}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=deadline_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return CheckFindings([], f"took longer than {deadline_s:g} s; see {log}")
    lines = [line for line in map(decode, child.stdout.splitlines()) if line is not None]
    problems = [line.problem for line in lines if isinstance(line, Failed)]
    return CheckFindings(lines, problems[0] if problems else "", child.returncode)
