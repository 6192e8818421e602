"""The two processes of `validate`: started like workers, heard until each has said its part."""

from __future__ import annotations

import selectors
import signal
import time

from shared.devices.gpus import Gpu, worker_environment
from shared.errors import TandemError
from shared.launching.places import WorkerProcess
from shared.run.directory import RunDirectory
from shared.worker.contract import ROLE_VARIABLE

_MODULES = {"data": "data_worker.checks.device_check", "model": "model_worker.checks.device_check"}
_ENDPOINT_FLAGS = {"data": "--connect", "model": "--listen"}


class CheckChildren:
    """A data and a model process, each on its GPU, until `end` is called."""

    def __init__(self, run: RunDirectory, gpus: dict[str, Gpu], endpoint: str):
        self._selector = selectors.DefaultSelector()
        self._heard: dict[tuple[str, str], dict] = {}
        self._children: dict[str, WorkerProcess] = {}
        for role, module in _MODULES.items():
            arguments = ["-m", module, "--run", str(run.path), "--gpu", str(gpus[role].index)]
            child = WorkerProcess(
                role,
                [*arguments, _ENDPOINT_FLAGS[role], endpoint],
                {**worker_environment(gpus[role]), ROLE_VARIABLE: role},
                run.log_of(f"{role}_check"),
                self._take,
            )
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

    def _take(self, role: str, report: dict) -> None:
        self._heard[role, report["kind"]] = report

    def wait_for(self, role: str, kind: str, deadline_s: float) -> dict:
        """What the process of this role reports as `kind`.

        Raises:
            TandemError: either process failed or ended first, or it took too long.
        """
        until_s = time.monotonic() + deadline_s
        while (role, kind) not in self._heard:
            self._raise_failure()
            if time.monotonic() > until_s:
                raise TandemError(f"the {role} process said nothing for {deadline_s:g} s.")
            for key, _ in self._selector.select(0.25):
                if not key.data.read():
                    self._selector.unregister(key.fd)
            child = self._children[role]
            if child.reader.is_closed and (role, kind) not in self._heard:
                self._raise_failure()
                raise TandemError(f"the {role} process {_how(child.process.wait())}.")
        return self._heard[role, kind]

    def _raise_failure(self) -> None:
        for role in _MODULES:
            if (role, "failure") in self._heard:
                message = str(self._heard[role, "failure"].get("message"))
                raise TandemError(f"in the {role} process: {message}")


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
