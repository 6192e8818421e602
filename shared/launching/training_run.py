"""One training run from the launcher's side: prepare, spawn, watch, end, leave nothing behind."""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Protocol

from shared.clock import machine_s
from shared.config.settings import Config
from shared.console.run_words import restart_in_words
from shared.devices.gpus import Gpu, Placement, worker_environment
from shared.errors import Trouble
from shared.launching import events_and_actions as orders
from shared.launching.stop_signals import handle_again, handle_stops, in_main_thread
from shared.launching.supervisor import Supervisor
from shared.places.local_place import LocalPlace
from shared.places.place import Child, Place, WorkerOrder
from shared.run.directory import RunDirectory
from shared.run.event_log import Restarted
from shared.run.json_lines import records_of
from shared.run.writer import EPOCH_VARIABLE, next_epoch
from shared.stream.endpoints import (
    default_endpoint,
    endpoint_of_replica,
    exchange_endpoint,
    exclusion_endpoint,
    remove_socket,
)
from shared.stream.run_wire import RunWire
from shared.worker.contract import (
    EXIT_INTERRUPTED,
    RESTART_VARIABLE,
    ROLE_VARIABLE,
    START_VARIABLE,
    SUSPECTS_VARIABLE,
)
from shared.worker.names import MODEL_WORKER, Role, worker_name
from shared.worker.reports import Cause, LineKind, Report, Said

_TICK_S = 0.25
_LOOK_EVERY_S = 1.0
_KILL_PATIENCE_S = 5.0  # with processes that the kernel keeps, waiting for storage


@dataclasses.dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    exit_code: int
    cause: str
    run_dir: str
    num_restarts: int
    at_once: bool = False  # a second Ctrl-C: nothing more is to be done
    trouble: Trouble = Trouble.OTHER  # what sort of cause it is

    @property
    def finished(self) -> bool:
        """Whether it came to its end: not interrupted, not failed."""
        return self.exit_code == 0

    def metrics(self) -> list[dict]:
        """The lines of the run's metrics.jsonl: logged steps and validations, oldest first."""
        return records_of(RunDirectory(self.run_dir).metrics)


def data_worker_names(config: Config, placement: Placement) -> list[str]:
    """Every data process that a run may start, its spares too."""
    gpus = _data_worker_gpus(config, placement)
    return [*gpus, *_spares(config, gpus)[0]]


def _data_worker_gpus(config: Config, placement: Placement) -> dict[str, Gpu | None]:
    gpus: tuple[Gpu | None, ...] = placement.data_gpus or (None,)
    each = [gpu for gpu in gpus for _ in range(config.run.data_workers)]
    return {worker_name(Role.DATA, number): gpu for number, gpu in enumerate(each)}


def _spares(
    config: Config, data_gpus: dict[str, Gpu | None]
) -> tuple[dict[str, Gpu | None], dict[str, str]]:
    """One spare for each data GPU, and which data worker has which."""
    if not config.run.spare_data_worker:
        return {}, {}
    gpus = list(dict.fromkeys(data_gpus.values()))
    names = {gpu: worker_name(Role.SPARE, number) for number, gpu in enumerate(gpus)}
    spares = {worker: names[gpu] for worker, gpu in data_gpus.items()}
    return {name: gpu for gpu, name in names.items()}, spares


class Say(Protocol):
    """Takes a line of the run's story, and what sort of line it is."""

    def __call__(self, text: str, kind: LineKind = LineKind.STORY) -> None: ...


class TrainingRun:
    """Starts and watches the workers of a prepared run."""

    def __init__(
        self,
        config: Config,
        run: RunDirectory,
        placement: Placement,
        say: Say,
        started_s: float,
        on_report: Callable[[str, Report], None] = lambda worker, report: None,
        model_command: tuple[str, ...] = ("model_worker",),
        on_event: Callable[[Restarted], None] = lambda event: None,
        on_stop: Callable[[], None] = lambda: None,
        place: Place | None = None,
        wire: RunWire | None = None,
    ):
        """`say` takes lines of the run's story, `on_report` everything that workers tell.

        `started_s` is time.time() of the command.
        `on_stop` is called when the run is about to save and end because it was asked to.
        `model_command` is the module that is the model process, and flags of its own.
        `place` is where the workers live, this host if nothing is said; `wire` is where batches flow
        to and with which keys, where that is not what the configuration says.
        """
        self._on_report = on_report
        self._on_event = on_event
        self._on_stop = on_stop
        self._model_command = model_command
        self._place: Place = LocalPlace() if place is None else place
        self._wire = wire
        self._config = config
        self._run = run
        self._placement = placement
        self._say = say
        self._started_s = machine_s() - (time.time() - started_s)
        self._data_gpus = _data_worker_gpus(config, placement)
        self._spare_gpus, spares = _spares(config, self._data_gpus)
        # Of each model worker its number among the replicas: the first one decides for all.
        gpus = placement.model_gpus
        self._ranks = {
            worker_name(Role.MODEL, rank) if rank else MODEL_WORKER: rank
            for rank in range(len(gpus))
        }
        self._supervisor = Supervisor(
            list(self._data_gpus),
            MODEL_WORKER,
            config.run.max_restarts,
            spares,
            [name for name, rank in self._ranks.items() if rank],
        )
        self._epoch = next_epoch(run)
        self._children: dict[str, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._spawned: set[str] = set()
        self._stops: list[int] = []
        self._reasons: list[str] = []
        self._stopping = self._stopped_at_once = False
        self._looked_s = 0.0
        self._finish: orders.Finish | None = None

    def watch(self) -> RunResult:
        """Run until the end, whatever it is."""
        previous = handle_stops(self._note_stop)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        previous_wake = -1
        if in_main_thread():
            previous_wake = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        try:
            while self._finish is None:
                self._act(orders.Ticked(time.monotonic()))
                for key, _ in self._selector.select(_TICK_S):
                    if key.data is None:
                        os.read(wake_read, 4096)
                    elif not key.data.read():
                        self._selector.unregister(key.fd)
                self._notice_stops()
                self._notice_exits()
                self._look_at_children()
        finally:
            self._kill_all()
            if in_main_thread():
                signal.set_wakeup_fd(previous_wake)
            handle_again(previous)
            os.close(wake_read)
            os.close(wake_write)
            self._selector.close()
            self._remove_sockets()
        return RunResult(
            self._finish.exit_code,
            self._finish.cause,
            str(self._run.path),
            self._supervisor.num_restarts,
            self._stopped_at_once,
            self._finish.trouble,
        )

    def _remove_sockets(self) -> None:
        first = self._config.run.endpoint or default_endpoint(self._config.run.wire_id)
        if len(self._ranks) > 1:
            remove_socket(exchange_endpoint(self._config.run.wire_id))
            remove_socket(exclusion_endpoint(self._config.run.wire_id))
        for rank in sorted(self._ranks.values(), reverse=True):  # a folder goes with its last file
            remove_socket(endpoint_of_replica(first, rank))

    def stop(self) -> None:
        """End the run as SIGTERM does: the step is finished and saved. For use in `on_report`."""
        self._stopping = True
        self._act(orders.StopAsked(time.monotonic()))

    def ask_to_stop(self, why: str = "") -> None:
        """The same, from another thread: noticed within a moment. `why` is said then."""
        self._reasons.append(why)
        self._stops.append(signal.SIGTERM)

    def _note_stop(self, number: int, frame: object) -> None:
        self._stops.append(number)

    def _notice_stops(self) -> None:
        stops, self._stops = self._stops, []
        reasons, self._reasons = self._reasons, []
        for reason in filter(None, reasons):
            self._say(reason)
        for number in stops:
            if number == signal.SIGINT and self._stopping:
                self._say("⏹  Stopped at once; the last checkpoint stands")
                self._finish = orders.Finish(EXIT_INTERRUPTED, "stopped at once")
                self._stopped_at_once = True
                return
            was_stopping, self._stopping = self._stopping, True
            self._act(orders.StopAsked(time.monotonic()))
            if not was_stopping:
                self._on_stop()
                name = signal.Signals(number).name
                self._say(
                    f"⏹  {name}: finishing the step and saving (Ctrl-C again to stop at once)"
                )

    def _notice_exits(self) -> None:
        for name, child in list(self._children.items()):
            if self._children.get(name) is not child:
                continue  # a spare that has just taken over from one seen before it
            status = child.poll()
            if status is not None:
                if not child.reader.is_closed:
                    self._selector.unregister(child.reader.descriptor)
                    child.reader.drain()
                del self._children[name]
                reading = child.was_reading()
                self._act(orders.Exited(name, status, time.monotonic(), reading))

    def _look_at_children(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for name, child in list(self._children.items()):
            self._act(orders.Inspected(name, child.is_stopped(), now_s))

    def _take_report(self, name: str, report: Report) -> None:
        self._on_report(name, report)
        if isinstance(report, Said):
            self._say(report.text, report.kind_of_line)
        elif isinstance(report, orders.Deciding):
            self._act(orders.Reported(name, report, time.monotonic()))

    def _act(self, event: orders.Event) -> None:
        for action in self._supervisor.handle(event):
            if isinstance(action, orders.Finish):
                self._finish = action
            elif isinstance(action, orders.Tell):
                self._say(action.text)
            elif isinstance(action, orders.Replace):
                cause, by_spare = action.cause, action.by_spare
                restarted = Restarted(time.time(), action.worker, cause, by_spare)
                self._on_event(restarted)
                self._say(f"⚠️  {restart_in_words(restarted)}")
            elif isinstance(action, orders.Spawn):
                self._spawn(action.worker, action.suspects)
            elif isinstance(action, orders.TakeOver):
                child = self._children[action.worker] = self._children.pop(action.spare)
                child.take_over(action.worker, action.suspects)
            elif action.worker in self._children:
                child = self._children[action.worker]
                if isinstance(action, orders.DumpStack):
                    child.dump_stack()
                elif isinstance(action, orders.AskToStop):
                    child.send_signal(signal.SIGTERM)
                elif isinstance(action, orders.GiveUp):
                    self._forget(action.worker)
                else:
                    child.send_signal(signal.SIGKILL)

    def _spawn(self, name: str, suspects: tuple[int, ...]) -> None:
        if name in self._ranks:
            rank = self._ranks[name]
            role, gpu, command = "model", self._placement.model_gpus[rank], self._model_command
            if rank:
                command = (*command, "--replica", str(rank))
        else:
            gpus = {**self._data_gpus, **self._spare_gpus}
            role, gpu, command = "data", gpus[name], ("data_worker",)
        is_spare, keys = name in self._spare_gpus, ""
        arguments = ["-m", *command, "--run", str(self._run.path.absolute()), "--name", name]
        arguments += ["--task", self._config.run.task]
        if is_spare:
            arguments.append("--spare")
        if gpu is not None:
            arguments += ["--gpu", str(gpu.index)]
        if self._wire is not None:
            arguments += self._wire.arguments(role, self._ranks.get(name, 0))
            keys = self._wire.keys_of(name)
        environment = {
            **worker_environment(gpu),
            ROLE_VARIABLE: role,
            START_VARIABLE: repr(self._started_s),
            SUSPECTS_VARIABLE: ",".join(map(str, suspects)),
        }
        if name == MODEL_WORKER:
            environment[EPOCH_VARIABLE] = str(self._epoch)
            self._epoch += 1
        if name in self._spawned:
            environment[RESTART_VARIABLE] = "1"
        try:
            log = self._run.log_of(name).absolute()
            order = WorkerOrder(name, role, tuple(arguments), environment, log, is_spare, keys)
            child = self._place.start(order, self._take_report)
        except OSError as error:  # no memory, processes or descriptors left, for now
            now_s, words = time.monotonic(), f"it could not be started ({error.strerror})"
            self._act(orders.Reported(name, Cause(words, will_pass=True), now_s))
            self._act(orders.Exited(name, 1, now_s))
            return
        self._spawned.add(name)
        self._children[name] = child
        self._selector.register(child.reader.descriptor, selectors.EVENT_READ, child.reader)

    def _forget(self, name: str) -> None:
        """Have nothing more to do with a child that is still there."""
        child = self._children.pop(name)
        if not child.reader.is_closed:
            self._selector.unregister(child.reader.descriptor)
            child.reader.close()

    def _kill_all(self) -> None:
        """End what is still alive: only our own children, by id."""
        for child in self._children.values():
            child.send_signal(signal.SIGKILL)
        until_s = time.monotonic() + _KILL_PATIENCE_S
        for child in self._children.values():
            child.wait(max(0.0, until_s - time.monotonic()))
            child.reader.close()
        self._children.clear()
        self._place.close()
