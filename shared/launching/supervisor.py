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
  a replica ends        of the model worker, in whatever way: replaced as the model worker is. The
                        others then end by themselves, the first one saved, and are started again
                        too; that is no death of theirs
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

import signal
from collections.abc import Sequence

from shared.launching.events_and_actions import (
    Action,
    AskToStop,
    DumpStack,
    Event,
    Exited,
    Finish,
    GiveUp,
    Inspected,
    Kill,
    Replace,
    Reported,
    Spawn,
    StopAsked,
    TakeOver,
    Tell,
)
from shared.launching.hang import hang_of, is_unkillable
from shared.launching.watched_worker import MODEL_ROLES, EndCause, WatchedWorker
from shared.worker.contract import (
    CLOSING,
    CRASH_SIGNALS,
    EXIT_INTERRUPTED,
    EXIT_TO_BEGIN_AGAIN,
    SHOWING,
    STANDING_BY,
)
from shared.worker.reports import Cause, Convicted, Failure, Phase

_DUMP_S = 1.0
# Together under the 20 s that a stop may take.
_STOP_MODEL_S = 15.0
_STOP_DATA_S = 3.0
_ASLEEP_S = 2.0  # between two ticks: then the launcher itself stood still
_SAME_FAILURES = 3  # of the model worker, one after the other, before it is believed


class Supervisor:
    """Keeps a model worker, its replicas and any number of data workers alive until the run is over."""

    def __init__(
        self,
        data_workers: list[str],
        model_worker: str,
        max_restarts: int,
        spares: dict[str, str] | None = None,
        replicas: Sequence[str] = (),
    ):
        """`spares` names, for data workers that have one, the spare that can take over.

        `replicas` names the model workers beside the first one, which decides for all.
        """
        self._spares = spares or {}
        self._workers = {name: WatchedWorker("data") for name in data_workers}
        self._workers[model_worker] = WatchedWorker("model")
        self._workers |= {name: WatchedWorker("replica") for name in replicas}
        self._workers |= {name: WatchedWorker("spare") for name in self._spares.values()}
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
        if isinstance(event, Inspected):
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
            worker.failure = worker.failure or EndCause(report.message, report.trouble)
        elif isinstance(report, Convicted):
            worker.forgive_last_death()
        elif isinstance(report, Cause):
            worker.note_cause(EndCause(report.message, report.trouble), report.will_pass)
        else:
            worker.note_progress(report.count, event.now_s)
        return []

    def _exited(self, event: Exited) -> list[Action]:
        worker = self._workers[event.worker]
        if worker.state == "stopping" or self._ending:
            worker.state = "ended"
            if event.worker == self._model and self._ending:
                self._note_model_end(event.status)
            return self._wind_down(event.now_s)
        if worker.role == "spare":
            return self._spare_exited(event, worker)
        cause = worker.failure or worker.why_it_ended(event.status).of_worker(event.worker)
        if worker.role == "model" and event.status in (0, EXIT_INTERRUPTED):
            worker.state = "ended"
            words = "finished" if event.status == 0 else "interrupted; the checkpoint is saved"
            return self._end(Finish(event.status, words), event.now_s)
        if worker.role == "data" and -event.status in CRASH_SIGNALS:
            worker.suspects = tuple(sorted({*worker.suspects, *event.reading}))
        if worker.role in ("data", "replica") and event.status == 0:
            worker.state = "ended"  # the model worker has told it that the run is over
            return []
        if worker.role == "replica" and event.status == EXIT_INTERRUPTED:
            worker.state = "ended"
            return []
        if worker.failure:
            worker.state = "ended"
            code = event.status if event.status in (1, 2) else 1
            return self._end(Finish(code, cause.words, cause.trouble), event.now_s)
        if worker.role in MODEL_ROLES and event.status == EXIT_TO_BEGIN_AGAIN:
            return self._begin_again(event.worker, worker, event.now_s)
        if worker.role in MODEL_ROLES and worker.same_causes >= _SAME_FAILURES:
            worker.state = "ended"
            words = f"{cause.words} ({worker.same_causes} times at the same batch)"
            return self._end(Finish(1, words, cause.trouble), event.now_s)
        return self._replace(event.worker, worker, cause, event.now_s)

    def _spare_exited(self, event: Exited, spare: WatchedWorker) -> list[Action]:
        """The run does not depend on a spare, so it never ends for one."""
        cause = spare.failure or spare.why_it_ended(event.status).of_worker(event.worker)
        spare.note_death(cause, event.now_s)
        if spare.failure or spare.has_died_too_often(event.worker, self._max_restarts):
            spare.state = "ended"
            return [Tell(f"⚠️  Going on without a spare: {cause.words}")]
        spare.state, spare.due_s = "backing-off", event.now_s + spare.delay_s
        return self._ticked(event.now_s)

    def _note_model_end(self, status: int) -> None:
        """A stop that was asked for counts as what the model worker made of it."""
        model = self._workers[self._model]
        if self._ending is None or self._ending.exit_code != EXIT_INTERRUPTED:
            return
        if status == 0:
            self._ending = Finish(0, "finished")
        elif not model.at_work and not model.failure:
            words = "interrupted while it was starting; there was nothing to save"
            self._ending = Finish(EXIT_INTERRUPTED, words)
        elif status not in (EXIT_INTERRUPTED, EXIT_TO_BEGIN_AGAIN) and (
            model.failure or model.phase not in (SHOWING, CLOSING)
        ):
            cause = model.failure or model.why_it_ended(status)
            words = f"stopped, but {self._model} did not save ({cause.words}); "
            self._ending = Finish(1, f"{words}the last checkpoint stands", cause.trouble)

    def _replace(
        self, name: str, worker: WatchedWorker, cause: EndCause, now_s: float
    ) -> list[Action]:
        worker.note_death(cause, now_s)
        if finish := worker.has_died_too_often(name, self._max_restarts):
            worker.state = "ended"
            return self._end(finish, now_s)
        return self._start_again(name, worker, cause, now_s, worker.delay_s)

    def _begin_again(self, name: str, worker: WatchedWorker, now_s: float) -> list[Action]:
        """A replica that is well has ended for another's sake: that is no death of its own.

        Where it gets no further by it, however often, something else is wrong.
        """
        cause = EndCause(f"{name}: it has lost another replica")
        worker.in_vain.append(cause)
        if finish := worker.has_died_too_often(name, self._max_restarts):
            worker.state = "ended"
            return self._end(finish, now_s)
        return self._start_again(name, worker, cause, now_s, 0.0)

    def _start_again(
        self, name: str, worker: WatchedWorker, cause: EndCause, now_s: float, delay_s: float
    ) -> list[Action]:
        self.num_restarts += 1
        worker.state = "backing-off"
        if worker.role in MODEL_ROLES:  # the run that was over for the others goes on
            for other in self._workers.values():
                if other.state == "ended" and other.role in ("data", "replica"):
                    other.state, other.due_s = "backing-off", now_s
        worker.due_s = now_s + delay_s
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
        if self._ending and all(worker.state == "ended" for worker in self._workers.values()):
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
            elif worker.state == "running":
                if hang := hang_of(worker, self._workers.values(), now_s):
                    worker.state, worker.due_s = "dumping", now_s + _DUMP_S
                    worker.cause = EndCause(hang)
                    said = f"⚠️  {name}: {hang}; its stack is in its log"
                    actions += [Tell(said), DumpStack(name)]
            elif worker.state in ("dumping", "stopping") and is_unkillable(worker, now_s):
                return [*actions, *self._give_up(name, now_s)]
            elif worker.state in ("dumping", "stopping") and now_s >= worker.due_s:
                worker.due_s = now_s + _DUMP_S
                worker.killed_s = worker.killed_s or now_s
                if worker.role == "model" and worker.state == "stopping":
                    late = f"not done after {_STOP_MODEL_S:.0f} s, so ended"
                    worker.cause = worker.cause or EndCause(late)
                actions.append(Kill(name))
        return actions

    def _forgive_own_sleep(self, now_s: float) -> None:
        """While nobody read them, the reports of workers that live could not be heard."""
        slept_s = now_s - (now_s if self._ticked_s is None else self._ticked_s)
        self._ticked_s = now_s
        if slept_s > _ASLEEP_S:
            for worker in self._workers.values():
                worker.forgive_sleep(slept_s, now_s)

    def _is_wanted(self, spare: str) -> bool:
        """Not before those it stands in for are at work: its start would slow theirs down."""
        return all(
            self._workers[name].state == "running" and self._workers[name].at_work
            for name, spare_of in self._spares.items()
            if spare_of == spare
        )

    def _start(self, name: str, worker: WatchedWorker, now_s: float) -> Action:
        worker.begin(now_s)
        spare = self._workers.get(self._spares.get(name, ""))
        if spare is not None and spare.state == "running" and spare.phase == STANDING_BY:
            worker.phase, worker.allowed_s = spare.phase, spare.allowed_s
            spare.state, spare.due_s, spare.at_work = "backing-off", now_s, False
            return TakeOver(self._spares[name], name, worker.suspects)
        return Spawn(name, worker.suspects)

    def _give_up(self, name: str, now_s: float) -> list[Action]:
        words = "not even SIGKILL ends it (the storage may not answer); going on without it"
        return [
            Tell(f"⚠️  {name}: {words}"),
            GiveUp(name),
            *self._exited(Exited(name, -signal.SIGKILL, now_s)),
        ]
