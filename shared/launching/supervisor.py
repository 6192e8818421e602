"""What the launcher does about its workers: a pure table, events in and actions out.

The rules:
  data worker ends      replaced at once, until `max_restarts` in a window, or in a row without
                        getting anything further; the delay grows while it does not even get to work
  with a spare          a spare that stands by takes over instead, and a new spare is started once
                        the data workers are at work; a spare that can't live is done without
  data worker crashes   as above; its replacement is told what it was reading, and a death for which
                        a file is convicted does not count
  model worker killed   restarted the same way; it continues from its last checkpoint
  model worker fails    the same, but not for the same cause at the same batch again and again
  a worker says why     (bad input, a run that can't go on): the run ends with that cause
  model worker ends     0: finished; 130: interrupted and saved; the data workers are stopped
  deadline passed       stack dump, a second later SIGKILL; then as for any death; what the launcher
                        slept through (a held terminal) is nobody's silence
  stopped (SIGSTOP)     the same after a few seconds, whatever the phase allows
  nobody has work       the model worker waits, and the data workers have nothing to do, for longer
                        than any batch takes: the same for the model worker
  can't be killed       given up after a few seconds: replaced, or left behind where the run ends
  stop asked            the model worker finishes its step, saves and ends; then the data workers
"""

from __future__ import annotations

import dataclasses
import signal
from collections import deque

from shared.errors import Trouble
from shared.launching.events_and_actions import (
    Action,
    AskToStop,
    DumpStack,
    Event,
    Exited,
    Finish,
    GiveUp,
    Kill,
    Looked,
    Replace,
    Reported,
    Spawn,
    StopAsked,
    TakeOver,
    Tell,
)
from shared.worker.contract import (
    CLOSING,
    CRASH_SIGNALS,
    EXIT_INTERRUPTED,
    SPEAKING,
    STANDING_BY,
    STARTING,
    WAITING,
    status_in_words,
    trouble_of,
)
from shared.worker.reports import Cause, Convicted, Failure, Phase

RESTART_WINDOW_S = 600.0
_BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
_DUMP_S = 1.0
# Together under the 20 s that a stop may take.
_STOP_MODEL_S = 15.0
_STOP_DATA_S = 3.0
_STARTING_S = 180.0
_ASLEEP_S = 2.0  # between two ticks: then the launcher itself stood still
_STOPPED_S = 8.0  # by a signal; people who look at a process in a debugger stop it otherwise
_STANDSTILL_S = 60.0
_UNKILLABLE_S = 5.0  # after SIGKILL; the kernel waits for storage that does not answer
_SAME_FAILURES = 3  # of the model worker, one after the other, before it is believed


@dataclasses.dataclass(frozen=True)
class _Why:
    """Of a worker's end."""

    words: str
    trouble: Trouble = Trouble.OTHER

    @classmethod
    def of_status(cls, status: int) -> _Why:
        return cls(status_in_words(status), trouble_of(status))

    def of_worker(self, name: str) -> _Why:
        return _Why(f"{name}: {self.words}", self.trouble)


@dataclasses.dataclass
class _Worker:
    """state: backing-off, running, dumping, stopping or ended."""

    role: str  # data, spare or model
    state: str = "backing-off"
    due_s: float = 0.0  # when the state's own deadline is over
    phase: str = STARTING
    allowed_s: float = _STARTING_S
    heard_s: float = 0.0
    stopped_since_s: float | None = None
    killed_s: float | None = None  # the first SIGKILL
    count: int = 0  # of its progress, and since when it has not changed
    moved_s: float = 0.0
    failure: _Why | None = None  # of the run, as this worker has it
    cause: _Why | None = None  # of its end, in its own words
    last_cause: str = ""  # the same, of whichever process before it had any
    same_causes: int = 0  # in a row, without getting further between them
    furthest: int = 0  # that any of its processes got
    suspects: tuple[int, ...] = ()  # until its replacement has looked at them
    at_work: bool = False  # it has reported progress since it was started
    num_fruitless: int = 0  # deaths in a row before it got to work
    in_vain: list[_Why] = dataclasses.field(default_factory=list)  # causes of deaths in a row
    # without getting further between them
    deaths: deque = dataclasses.field(default_factory=deque)  # (when, cause), oldest first


def _why(worker: _Worker, status: int) -> _Why:
    """Its own words for its end where it had any, else what the system says."""
    return worker.cause or _Why.of_status(status)


class Supervisor:
    """Keeps one model worker and any number of data workers alive until the run is over."""

    def __init__(
        self,
        data_workers: list[str],
        model_worker: str,
        max_restarts: int,
        spares: dict[str, str] | None = None,
    ):
        """`spares` names, for data workers that have one, the spare that can take over."""
        self._spares = spares or {}
        self._workers = {name: _Worker("data") for name in data_workers}
        self._workers[model_worker] = _Worker("model")
        self._workers |= {name: _Worker("spare") for name in self._spares.values()}
        self._model = model_worker
        self._max_restarts = max_restarts
        self._ending: Finish | None = None
        self._finished = False
        self._ticked_s: float | None = None
        self.num_restarts = 0

    def handle(self, event: Event) -> list[Action]:
        """Take in one event and say what must be done."""
        if self._finished:
            return []
        if isinstance(event, Reported):
            return self._reported(event)
        if isinstance(event, Exited):
            return self._exited(event)
        if isinstance(event, Looked):
            worker = self._workers[event.worker]
            since_s = worker.stopped_since_s if event.is_stopped else None
            worker.stopped_since_s = (
                event.now_s if event.is_stopped and since_s is None else since_s
            )
            return []
        if isinstance(event, StopAsked):
            return self._stop(event.now_s)
        return self._ticked(event.now_s)

    def _reported(self, event: Reported) -> list[Action]:
        worker, report = self._workers[event.worker], event.report
        worker.heard_s = event.now_s
        if isinstance(report, Phase):
            worker.phase, worker.allowed_s = report.name, report.deadline_s
            worker.moved_s = event.now_s
        elif isinstance(report, Failure):
            worker.failure = worker.failure or _Why(report.message, report.trouble)
        elif isinstance(report, Convicted):
            if worker.deaths:
                worker.deaths.pop()
            if worker.in_vain:
                worker.in_vain.pop()
        elif isinstance(report, Cause):
            is_known = report.message == worker.last_cause and not report.will_pass
            worker.cause = _Why(report.message, report.trouble)
            worker.last_cause = report.message
            worker.same_causes = worker.same_causes + 1 if is_known else 1
        else:
            self._note_progress(worker, report.count, event.now_s)
        return []

    @staticmethod
    def _note_progress(worker: _Worker, count: int, now_s: float) -> None:
        worker.at_work, worker.suspects = True, ()
        if count != worker.count:
            worker.count, worker.moved_s = count, now_s
        # A data worker counts from its own start, the model worker through the run.
        if count > (worker.furthest if worker.role == "model" else 0):
            worker.in_vain.clear()
        if count > worker.furthest:
            worker.furthest, worker.same_causes = count, 0

    def _exited(self, event: Exited) -> list[Action]:
        worker = self._workers[event.worker]
        if worker.state == "stopping" or self._ending:
            worker.state = "ended"
            if event.worker == self._model and self._ending:
                self._note_model_end(event.status)
            return self._wind_down(event.now_s)
        if worker.role == "spare":
            return self._spare_exited(event, worker)
        cause = worker.failure or _why(worker, event.status).of_worker(event.worker)
        if worker.role == "model" and event.status in (0, EXIT_INTERRUPTED):
            worker.state = "ended"
            words = "finished" if event.status == 0 else "interrupted; the checkpoint is saved"
            return self._end(Finish(event.status, words), event.now_s)
        if worker.role == "data" and -event.status in CRASH_SIGNALS:
            worker.suspects = tuple(sorted({*worker.suspects, *event.reading}))
        if worker.role == "data" and event.status == 0:
            worker.state = "ended"  # the model worker has told it that the run is over
            return []
        if worker.failure:
            worker.state = "ended"
            code = event.status if event.status in (1, 2) else 1
            return self._end(Finish(code, cause.words, cause.trouble), event.now_s)
        if worker.role == "model" and worker.same_causes >= _SAME_FAILURES:
            worker.state = "ended"
            words = f"{cause.words} ({worker.same_causes} times at the same batch)"
            return self._end(Finish(1, words, cause.trouble), event.now_s)
        return self._replace(event.worker, worker, cause, event.now_s)

    def _spare_exited(self, event: Exited, spare: _Worker) -> list[Action]:
        """The run does not depend on a spare, so it never ends for one."""
        cause = spare.failure or _why(spare, event.status).of_worker(event.worker)
        self._count_death(spare, cause, event.now_s)
        if spare.failure or self._too_many(event.worker, spare):
            spare.state = "ended"
            return [Tell(f"⚠️  Going on without a spare: {cause.words}")]
        spare.state, spare.due_s = "backing-off", event.now_s + _delay_s(spare)
        return self._ticked(event.now_s)

    def _note_model_end(self, status: int) -> None:
        """A stop that was asked for counts as what the model worker made of it."""
        model = self._workers[self._model]
        if self._ending.exit_code != EXIT_INTERRUPTED:
            return
        if status == 0:
            self._ending = Finish(0, "finished")
        elif not model.at_work and not model.failure:
            words = "interrupted while it was starting; there was nothing to save"
            self._ending = Finish(EXIT_INTERRUPTED, words)
        elif status != EXIT_INTERRUPTED and (
            model.failure or model.phase not in (SPEAKING, CLOSING)
        ):
            cause = model.failure or _why(model, status)
            words = f"stopped, but {self._model} did not save ({cause.words}); "
            self._ending = Finish(1, f"{words}the last checkpoint stands", cause.trouble)

    @staticmethod
    def _count_death(worker: _Worker, cause: _Why, now_s: float) -> None:
        worker.num_fruitless = 0 if worker.at_work else worker.num_fruitless + 1
        worker.in_vain.append(cause)
        worker.deaths.append((now_s, cause))
        while now_s - worker.deaths[0][0] > RESTART_WINDOW_S:
            worker.deaths.popleft()

    def _too_many(self, name: str, worker: _Worker) -> Finish | None:
        """Why a worker is not started again, or nothing while it may be."""
        allowed = f"more than --max-restarts {self._max_restarts} allows"
        if len(worker.deaths) > self._max_restarts:
            count, first = len(worker.deaths), worker.deaths[0][1]
            often = f"{count} times within {RESTART_WINDOW_S / 60:g} minutes"
        elif len(worker.in_vain) > self._max_restarts:
            count, first = len(worker.in_vain), worker.in_vain[0]
            often = f"{count} times without getting any further"
        else:
            return None
        words = f"{name} ended {often}, {allowed}. First cause: {first.words}"
        return Finish(1, words, first.trouble)

    def _replace(self, name: str, worker: _Worker, cause: _Why, now_s: float) -> list[Action]:
        self._count_death(worker, cause, now_s)
        if finish := self._too_many(name, worker):
            worker.state = "ended"
            return self._end(finish, now_s)
        self.num_restarts += 1
        worker.state = "backing-off"
        if worker.role == "model":
            for other in self._workers.values():
                if other.state == "ended" and other.role == "data":
                    other.state, other.due_s = "backing-off", now_s
        worker.due_s = now_s + _delay_s(worker)
        worker.failure = None
        actions = self._ticked(now_s)
        taken_over = any(isinstance(a, TakeOver) and a.worker == name for a in actions)
        return [Replace(name, cause.words, by_spare=taken_over), *actions]

    def _stop(self, now_s: float) -> list[Action]:
        if self._ending:
            return []
        return self._end(Finish(EXIT_INTERRUPTED, "interrupted; the checkpoint is saved"), now_s)

    def _end(self, finish: Finish, now_s: float) -> list[Action]:
        self._ending = finish
        return self._wind_down(now_s)

    def _wind_down(self, now_s: float) -> list[Action]:
        """Stop the model worker first, then the data workers, then finish."""
        actions: list[Action] = []
        model_ended = self._workers[self._model].state in ("ended", "backing-off")
        for name, worker in self._workers.items():
            if worker.state == "backing-off":
                worker.state = "ended"
            elif worker.state in ("running", "dumping") and (model_ended or name == self._model):
                allowed_s = _STOP_MODEL_S if worker.role == "model" else _STOP_DATA_S
                worker.state, worker.due_s = "stopping", now_s + allowed_s
                actions.append(AskToStop(name))
        if all(worker.state == "ended" for worker in self._workers.values()):
            self._finished = True
            actions.append(self._ending)
        return actions

    def _ticked(self, now_s: float) -> list[Action]:
        self._forgive_own_sleep(now_s)
        actions: list[Action] = []
        for name, worker in self._workers.items():
            if worker.state == "backing-off" and now_s >= worker.due_s and not self._ending:
                if worker.role != "spare" or self._is_wanted(name):
                    actions.append(self._start(name, worker, now_s))
            elif worker.state == "running" and (hang := self._hang(worker, now_s)):
                worker.state, worker.due_s, worker.cause = "dumping", now_s + _DUMP_S, _Why(hang)
                actions += [Tell(f"⚠️  {name}: {hang}; its stack is in its log"), DumpStack(name)]
            elif worker.state in ("dumping", "stopping") and self._is_unkillable(worker, now_s):
                return [*actions, *self._give_up(name, now_s)]
            elif worker.state in ("dumping", "stopping") and now_s >= worker.due_s:
                worker.due_s = now_s + _DUMP_S
                worker.killed_s = worker.killed_s or now_s
                if worker.role == "model" and worker.state == "stopping":
                    late = f"not done after {_STOP_MODEL_S:.0f} s, so ended"
                    worker.cause = worker.cause or _Why(late)
                actions.append(Kill(name))
        return actions

    def _forgive_own_sleep(self, now_s: float) -> None:
        """While nobody read them, the reports of workers that live could not be heard."""
        slept_s = now_s - (now_s if self._ticked_s is None else self._ticked_s)
        self._ticked_s = now_s
        if slept_s > _ASLEEP_S:
            for worker in self._workers.values():
                worker.heard_s = min(now_s, worker.heard_s + slept_s)
                worker.moved_s = min(now_s, worker.moved_s + slept_s)
                if worker.killed_s is not None:
                    worker.killed_s = min(now_s, worker.killed_s + slept_s)
                worker.stopped_since_s = None  # until it is looked at again

    def _is_wanted(self, spare: str) -> bool:
        """Not before those it stands in for are at work: its start would slow theirs down."""
        return all(
            self._workers[name].state == "running" and self._workers[name].at_work
            for name, spare_of in self._spares.items()
            if spare_of == spare
        )

    def _start(self, name: str, worker: _Worker, now_s: float) -> Action:
        worker.state, worker.heard_s, worker.at_work, worker.cause = "running", now_s, False, None
        worker.stopped_since_s = worker.killed_s = None
        worker.count, worker.moved_s = 0, now_s
        spare = self._workers.get(self._spares.get(name, ""))
        if spare is not None and spare.state == "running" and spare.phase == STANDING_BY:
            worker.phase, worker.allowed_s = spare.phase, spare.allowed_s
            spare.state, spare.due_s, spare.at_work = "backing-off", now_s, False
            return TakeOver(self._spares[name], name, worker.suspects)
        worker.phase, worker.allowed_s = STARTING, _STARTING_S
        return Spawn(name, worker.suspects)

    def _hang(self, worker: _Worker, now_s: float) -> str:
        """In what way a worker hangs, or nothing."""
        since_s = worker.stopped_since_s
        if since_s is not None and now_s - since_s > _STOPPED_S:
            return f"stopped by a signal for {now_s - since_s:.0f} s while {worker.phase}"
        if 0 < worker.allowed_s < now_s - worker.heard_s:
            return f"no progress for {now_s - worker.heard_s:.0f} s while {worker.phase}"
        if worker.role == "model" and self._stands_still(worker, now_s):
            return f"waiting for {_STANDSTILL_S:.0f} s for data that nobody is making"
        return ""

    def _stands_still(self, model: _Worker, now_s: float) -> bool:
        """Whether all wait for each other: each is well by itself, and says so."""
        others = [worker for worker in self._workers.values() if worker.role == "data"]
        return model.phase == WAITING and all(
            worker.state == "running" and worker.at_work and now_s - worker.moved_s > _STANDSTILL_S
            for worker in (model, *others)
        )

    @staticmethod
    def _is_unkillable(worker: _Worker, now_s: float) -> bool:
        return worker.killed_s is not None and now_s - worker.killed_s > _UNKILLABLE_S

    def _give_up(self, name: str, now_s: float) -> list[Action]:
        words = "not even SIGKILL ends it (the storage may not answer); going on without it"
        return [
            Tell(f"⚠️  {name}: {words}"),
            GiveUp(name),
            *self._exited(Exited(name, -signal.SIGKILL, now_s)),
        ]


def _delay_s(worker: _Worker) -> float:
    num_counting = min(worker.num_fruitless, len(worker.deaths), len(_BACKOFF_S))
    return _BACKOFF_S[max(0, num_counting - 1)]
