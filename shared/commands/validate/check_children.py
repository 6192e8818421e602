"""The two processes of `validate`: started like workers, heard until each has said its part."""

from __future__ import annotations

import selectors
import signal
import time
from typing import TypeVar

from shared.devices.gpus import (
    COMPILES_KERNELS_VARIABLE,
    COMPILING_DEADLINE_S,
    Gpu,
    worker_environment,
)
from shared.errors import TandemError, Trouble
from shared.places.local_place import WorkerProcess
from shared.places.place import WorkerOrder
from shared.run.directory import RunDirectory
from shared.worker.contract import ROLE_VARIABLE, signal_name, trouble_of
from shared.worker.reports import Cause, Failure, Report

Heard = TypeVar("Heard", bound=Report)

_STAGE_DEADLINE_S = 240.0
_MODULES = {"data": "data_worker.checks.device_check", "model": "model_worker.checks.device_check"}
_ENDPOINT_FLAGS = {"data": "--connect", "model": "--listen"}


class CheckChildren:
    """A data and a model process, each on its GPU, until `end` is called."""

    def __init__(self, run: RunDirectory, gpus: dict[str, Gpu], endpoint: str):
        self._selector = selectors.DefaultSelector()
        self._heard: dict[tuple[str, type], Report] = {}
        self._children: dict[str, WorkerProcess] = {}
        compiled_first = {
            name: value
            for gpu in gpus.values()
            for name, value in worker_environment(gpu).items()
            if name == COMPILES_KERNELS_VARIABLE
        }
        self.deadline_s = COMPILING_DEADLINE_S if compiled_first else _STAGE_DEADLINE_S
        for role, module in _MODULES.items():
            arguments = ["-m", module, "--run", str(run.path), "--gpu", str(gpus[role].index)]
            order = WorkerOrder(
                role,
                role,
                (*arguments, _ENDPOINT_FLAGS[role], endpoint),
                {**worker_environment(gpus[role]), **compiled_first, ROLE_VARIABLE: role},
                run.log_of(f"{role}_check"),
            )
            child = WorkerProcess(order, self._take)
            self._children[role] = child
            self._selector.register(child.reader.descriptor, selectors.EVENT_READ, child.reader)

    def end(self) -> None:
        """End both, by their ids, if they have not ended yet."""
        for child in self._children.values():
            child.send_signal(signal.SIGKILL)
        for child in self._children.values():
            child.process.wait()
            if not child.reader.is_closed:
                self._selector.unregister(child.reader.descriptor)
                child.reader.drain()
        self._selector.close()

    def _take(self, role: str, report: Report) -> None:
        self._heard[role, type(report)] = report

    def wait_for(self, role: str, kind: type[Heard]) -> Heard:
        """The report of this kind by the process of this role.

        Raises:
            TandemError: either process failed or ended first, or it took too long.
        """
        until_s = time.monotonic() + self.deadline_s
        while (report := self._told(role, kind)) is None:
            self._raise_failure()
            if time.monotonic() > until_s:
                words = f"the {role} process said nothing for {self.deadline_s:g} s."
                raise TandemError(words, Trouble.SILENCE)
            for key, _ in self._selector.select(0.25):
                if not key.data.read():
                    self._selector.unregister(key.fd)
            child = self._children[role]
            if child.reader.is_closed and self._told(role, kind) is None:
                self._raise_failure()
                status = child.process.wait()
                raise TandemError(f"the {role} process {_how(status)}.", trouble_of(status))
        return report

    def _told(self, role: str, kind: type[Heard]) -> Heard | None:
        report = self._heard.get((role, kind))
        return report if isinstance(report, kind) else None

    def _raise_failure(self) -> None:
        for role in _MODULES:
            for kind in (Failure, Cause):
                found = self._heard.get((role, kind))
                if isinstance(found, Failure | Cause):
                    raise TandemError(f"in the {role} process: {found.message}", found.trouble)


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal_name(-status)}"
    return f"ended with status {status}"
