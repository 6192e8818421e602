"""The faults: each looks at a run a hundred times a second and strikes at random moments."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

from damaged_corpus import AFTER
from fault_runs import Life, Run

from shared.config.toml_file import load_config

MODEL_KILLED_IN_SAVE = "SIGKILL of the model process while saving"
MODEL_KILLED = "SIGKILL of the model process while not saving"


@dataclasses.dataclass
class Told:
    """What was done to a run and how it took it."""

    faults: dict[str, int] = dataclasses.field(default_factory=dict)
    recovery_s: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    said: dict[str, int] = dataclasses.field(default_factory=dict)  # how often, by the run itself
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def count(self, kind: str) -> None:
        with self._lock:
            self.faults[kind] = self.faults.get(kind, 0) + 1

    def recovered(self, kind: str, seconds: float) -> None:
        self.recovery_s.setdefault(kind, []).append(round(seconds, 3))


class KillData:
    """SIGKILL of data processes: some while they start, most soon after their first batch."""

    def __init__(
        self,
        rng: random.Random,
        told: Told,
        most: int,
        while_starting: float = 0.3,
        with_spare: bool = False,
    ):
        """`with_spare`: kill only while a spare stands by."""
        self._rng, self._told, self._most = rng, told, most
        self._while_starting, self._with_spare = while_starting, with_spare
        self._due: dict[int, tuple[str, float]] = {}  # pid -> (from when, delay)
        # worker -> (its pid last killed while it served, the model process then, when)
        self._killed: dict[str, tuple[int, list[int], float]] = {}
        self._done = 0

    def act(self, run: Run, now_s: float) -> None:
        for life in run.lives_of("data_worker"):
            if life.pid not in self._due:
                early = self._rng.random() < self._while_starting
                delay_s = self._rng.uniform(0, 4) if early else self._rng.expovariate(1 / 0.15)
                self._due[life.pid] = ("seen" if early else "served", delay_s)
            self._note_recovery(run, life)
            self._strike(run, life, now_s)

    def _note_recovery(self, run: Run, life: Life) -> None:
        """Only a replacement that was left alone, and had someone to serve, shows its time."""
        pid, model, killed_s = self._killed.get(life.worker, (life.pid, [], 0.0))
        if life.pid == pid or life.ready_s is None:
            return
        del self._killed[life.worker]
        if model == _model_pids(run):
            took_s = life.ready_s - killed_s
            self._told.recovered("data process, to its replacement's first batch", took_s)

    def _strike(self, run: Run, life: Life, now_s: float) -> None:
        since, delay_s = self._due[life.pid]
        begun_s = life.seen_s if since == "seen" else life.ready_s
        if self._done >= self._most or begun_s is None or now_s - begun_s < delay_s:
            return
        if self._with_spare and not any(spare.ready_s for spare in run.lives_of("data_spare")):
            return
        if run.signal(life.pid, signal.SIGKILL):
            self._done += 1
            self._told.count("SIGKILL of a data process")
            if life.ready_s:
                self._killed[life.worker] = (life.pid, _model_pids(run), now_s)
            else:
                self._killed.pop(life.worker, None)
        self._due[life.pid] = ("served", float("inf"))


def _model_pids(run: Run) -> list[int]:
    return [life.pid for life in run.lives_of("model_worker")]


class KillModel:
    """SIGKILL of the model process: every other one while a checkpoint is being written.

    It is stopped first and looked at, so that what it was doing when it was killed is known.
    """

    def __init__(self, rng: random.Random, told: Told, most: int, damage: float = 0.0):
        """`damage`: the share of kills after which the newest checkpoint is damaged too."""
        self._rng, self._told, self._most, self._damage = rng, told, most, damage
        self._pid: int | None = None
        self._done = 0
        self._killed_s: float | None = None

    def act(self, run: Run, now_s: float) -> None:
        for life in run.lives_of("model_worker"):
            if life.pid != self._pid:
                self._pid = life.pid
                self._in_save = self._done % 2 == 0
                self._saves_left = self._rng.randrange(1, 4)
                self._delay_s = self._rng.uniform(0.5, 12)
                self._into_save_s = self._rng.uniform(0, 0.08)
                self._saving_since_s: float | None = None
                self._is_killed = False
            if self._done < self._most and not self._is_killed:
                self._look(run, now_s)
                if self._is_due(life, now_s):
                    self._strike(run, life, now_s)

    def _look(self, run: Run, now_s: float) -> None:
        """Notice where saves begin and end."""
        is_saving = run.saving_now()
        if is_saving and self._saving_since_s is None:
            self._saving_since_s = now_s
            self._saves_left -= 1
            if self._killed_s is not None:
                self._told.recovered("model process, to its next save", now_s - self._killed_s)
                self._killed_s = None
        elif not is_saving and self._saving_since_s is not None:
            self._saving_since_s = None
            if self._saves_left <= 0:  # that one was over too soon
                self._into_save_s /= 2

    def _is_due(self, life: Life, now_s: float) -> bool:
        if not self._in_save:
            return now_s - life.seen_s >= self._delay_s
        since_s = self._saving_since_s
        return self._saves_left <= 0 and since_s is not None and (
            now_s - since_s >= self._into_save_s
        )  # fmt: skip

    def _strike(self, run: Run, life: Life, now_s: float) -> None:
        if run.is_stopped(life.pid):
            return  # by another fault, which the launcher is to mend
        is_saving = run.stop_process(life.pid) and run.saving_now()
        if self._in_save and not is_saving:
            run.signal(life.pid, signal.SIGCONT)
            return
        if not run.signal(life.pid, signal.SIGKILL):
            return
        self._is_killed = True
        self._done += 1
        self._killed_s = now_s
        self._told.count(MODEL_KILLED_IN_SAVE if is_saving else MODEL_KILLED)
        if self._rng.random() < self._damage:
            self._damage_newest(run)

    def _damage_newest(self, run: Run) -> None:
        """A flipped bit or a cut in one file of the newest of at least two checkpoints."""
        found = sorted((run.folder / "checkpoints").glob("step-*"))
        if len(found) < 2:
            return
        file = self._rng.choice(sorted(found[-1].iterdir()))
        content = bytearray(file.read_bytes())
        if self._rng.random() < 0.5:
            del content[self._rng.randrange(len(content)) :]
        else:
            content[self._rng.randrange(len(content))] ^= 1 << self._rng.randrange(8)
        file.write_bytes(content)
        self._told.count("damaged checkpoint")


class Freeze:
    """SIGSTOP of a process that has begun to work, for good: only the launcher can mend it."""

    def __init__(self, rng: random.Random, told: Told, role: str, most: int):
        self._rng, self._told, self._role, self._most = rng, told, role, most
        self._frozen: Life | None = None
        self._frozen_s = 0.0
        self._next_s = 0.0
        self._done = 0

    def act(self, run: Run, now_s: float) -> None:
        name = "data process" if self._role == "data_worker" else "model process"
        for life in run.lives_of(self._role):
            frozen = self._frozen
            if frozen is not None and life.worker == frozen.worker and life.pid != frozen.pid:
                self._told.recovered(f"stopped {name}, to its replacement", now_s - self._frozen_s)
                self._frozen = None
                self._next_s = now_s + self._rng.uniform(4, 10)
            ready = life.ready_s is not None
            if self._frozen is None and self._done < self._most and ready and now_s > self._next_s:
                if run.signal(life.pid, signal.SIGSTOP):
                    self._done += 1
                    self._told.count(f"SIGSTOP of a {name}")
                    self._frozen, self._frozen_s = life, now_s


class DiskFaults:
    """ENOSPC and EIO at a random call of a save, through the layer in `fault_layer`."""

    def __init__(self, rng: random.Random, told: Told, most: int):
        self._rng, self._told, self._most = rng, told, most
        self._armed = 0
        self._kind = ""
        self._next_s = 0.0

    def act(self, run: Run, now_s: float) -> None:
        if run.control.exists():
            return
        if self._kind:
            self._told.count(f"{self._kind} in a save")
            self._kind = ""
            self._next_s = now_s + self._rng.uniform(0.3, 2)
        if self._armed < self._most and now_s >= self._next_s and run.saving_now():
            self._armed += 1
            number = self._rng.choice([errno.ENOSPC, errno.EIO])
            self._kind = errno.errorcode[number]
            beside = run.control.with_suffix(".new")
            # Of the 26 calls of a save any may fail, and perhaps the first of the next save too.
            # Not more: a run whose last save fails three times in a row rightly ends with 1.
            beside.write_text(f"{number} {self._rng.randrange(26)} {self._rng.randrange(1, 3)}")
            beside.rename(run.control)


class FillDisk:
    """Fills the run's own small filesystem to the last byte for a few seconds, and frees it."""

    def __init__(self, rng: random.Random, told: Told, most: int):
        self._rng, self._told, self._most = rng, told, most
        self._until_s: float | None = None
        self._next_s: float | None = None
        self._done = 0

    def act(self, run: Run, now_s: float) -> None:
        ballast = run.folder.parent / "ballast"
        if self._until_s is not None:
            if now_s < self._until_s:
                _fill(ballast)  # what was freed meanwhile
                return
            ballast.unlink()
            self._until_s, self._next_s = None, now_s + self._rng.uniform(0.5, 2)
        elif self._next_s is None:
            if run.saving_now():
                self._next_s = now_s + self._rng.uniform(0, 1)
        elif self._done < self._most and now_s >= self._next_s:
            _fill(ballast)
            self._done += 1
            self._told.count("full disk")
            self._until_s = now_s + self._rng.uniform(1, 4)


class DamageAudio:
    """Damages the run's own audio files, in every way we know, while it trains from them."""

    def __init__(self, rng: random.Random, told: Told, most: int, last: int):
        """`last`: the last batch to strike at, so that each of them is asked for once more."""
        self._rng, self._told = random.Random(rng.randrange(2**32)), told
        self._due = sorted(self._rng.sample(range(1, last + 1), most))  # batches trained
        self._sound: list[Path] | None = None  # known once the run is
        self._next_s = 0.0
        self.damaged: dict[str, str] = {}  # utterance -> what was done to it

    def act(self, run: Run, now_s: float) -> None:
        if not self._due or now_s < self._next_s or not run.lives_of("model_worker"):
            return
        self._next_s = now_s + 0.1
        if self._sound is None:
            corpus = Path(load_config(run.folder / "config.toml").data.train_data or "")
            self._sound = sorted((corpus / "wavs").iterdir())
        audit = run.folder / "audit.jsonl"
        num_trained = audit.read_bytes().count(b"\n") if audit.exists() else 0
        while self._due and self._due[0] <= num_trained:
            del self._due[0]
            path = self._sound.pop(self._rng.randrange(len(self._sound)))
            kind = self._rng.choice(sorted(AFTER))
            _damage_at_once(path, kind)
            self.damaged[path.stem] = kind
            self._told.count(f"audio {kind}")


def _damage_at_once(path: Path, kind: str) -> None:
    """No reader may see half of it: the old header and the new samples would be a sound file."""
    beside = path.parent.parent / f"{path.name}.{os.getpid()}"
    shutil.copy(path, beside)
    AFTER[kind](beside)
    if beside.is_file():
        beside.replace(path)
        return
    path.unlink()
    if beside.is_dir():
        beside.rename(path)


def _fill(ballast: Path) -> None:
    with open(ballast, "ab", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            return


def disturb(run: Run, kinds: list, deadline_s: float) -> None:
    """Let the faults strike until the run is over.

    Raises:
        TimeoutError: it did not end.
    """
    pause = threading.Event()
    until_s = time.monotonic() + deadline_s
    while not run.is_over:
        now_s = time.monotonic()
        if now_s > until_s:
            raise TimeoutError(f"{run.folder} has not ended after {deadline_s:.0f} s")
        run.look()
        for kind in kinds:
            kind.act(run, now_s)
        pause.wait(0.01)
