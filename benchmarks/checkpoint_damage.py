"""Checkpoints that are damaged, and saves that are cut off at every call: what is loaded after it?

    python benchmarks/checkpoint_damage.py [--damages 2000] [--seed 1] [--run RUN]

First every call of a save that changes the disk (mkdir, open, write, fsync, rename, unlink …) is
interrupted once: by SIGKILL of the process that saves, and by ENOSPC and EIO, a write torn in two.
The old or the new checkpoint must load. Then one file of the newest of two checkpoints is damaged
at a time: a flipped bit, a cut, or bytes at the end. The damage must be noticed and the older one
used. With --run the checkpoints of a real run are copied and damaged, else small ones are made.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from model_worker.checkpoints.files import Checkpoint, OsLayer
from model_worker.checkpoints.store import CheckpointStore
from shared.errors import CheckpointError

CALLS = ("mkdir", "open", "write", "fsync", "close", "link", "rename", "unlink", "rmdir")


class CutOff:
    """The calls of a save, of which number `at` ends the process or fails."""

    def __init__(self, at: int = -1, fault: int = 0):
        self.names: list[str] = []
        self._at, self._fault = at, fault

    def __getattr__(self, name: str):
        real = getattr(OsLayer, name)

        def call(*arguments):
            self.names.append(name)
            if len(self.names) - 1 != self._at:
                return real(*arguments)
            if name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            if not self._fault:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self._fault, os.strerror(self._fault))

        return call


def content(step: int) -> tuple[dict, dict]:
    rng = np.random.default_rng(step)
    groups = {name: {"kernel": rng.normal(size=(200, 3)).astype(np.float32)}
              for name in ("weights", "optimizer", "ema")}  # fmt: skip
    return groups, {"next_batch": 8 * step}


def is_step(found: Checkpoint | None, step: int) -> bool:
    groups, state = content(step)
    return found is not None and found.state == state and all(
        np.array_equal(found.groups[group]["kernel"], arrays["kernel"])
        for group, arrays in groups.items()
    )  # fmt: skip


def save_two(folder: Path, layer: Any = None) -> None:
    """Replace step 1, which is there and the best, by step 2."""
    store = CheckpointStore(folder, keep_last=1, os_layer=layer, warn=lambda text: None)
    store.save(2, *content(2))
    store.mark_best(2, 0.5)


def interrupted_saves(folder: Path) -> tuple[Counter, int]:
    """Interruptions by call, and how many times neither the old nor the new was loaded."""
    begun = folder / "begun"
    store = CheckpointStore(begun, keep_last=1)
    store.save(1, *content(1))
    store.mark_best(1, 1.0)
    layer = CutOff()
    shutil.copytree(begun, folder / "counted")
    save_two(folder / "counted", layer)
    done: Counter = Counter()
    num_lost = 0
    for at, name in enumerate(layer.names):
        for fault in (0, errno.ENOSPC, errno.EIO):
            here = folder / "here"
            shutil.copytree(begun, here)
            _save_in_child(here, CutOff(at, fault))
            done[name] += 1
            found = CheckpointStore(here).load_latest()
            best = CheckpointStore(here).load_best()
            if not (is_step(found, 1) or is_step(found, 2)) or best is None:
                num_lost += 1
            shutil.rmtree(here)
    return done, num_lost


def _save_in_child(folder: Path, layer: CutOff) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            save_two(folder, layer)
        except CheckpointError:
            pass
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def damage(file: Path, rng: random.Random) -> str:
    """Change one file; returns the kind of damage."""
    raw = bytearray(file.read_bytes())
    kind = rng.choice(("flipped bit", "flipped bit", "cut", "bytes at the end"))
    if kind == "flipped bit":
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del raw[rng.randrange(len(raw)) :]
    else:
        raw += rng.randbytes(rng.randrange(1, 9))
    file.write_bytes(raw)
    return kind


def path_of_latest(folder: Path, on_skip: Callable[[str], None] | None = None) -> Path | None:
    found = CheckpointStore(folder).load_latest(on_skip)
    return found.path if found is not None else None


def damaged_checkpoints(folder: Path, num: int, seed: int) -> tuple[Counter, int]:
    """Damages by kind, and how many were not noticed."""
    rng = random.Random(seed)
    newest = max(folder.glob("step-*"))
    assert path_of_latest(folder) == newest
    done: Counter = Counter()
    num_silent = 0
    files = sorted(newest.iterdir())
    for number in range(num):
        file = files[number % len(files)]
        good = file.read_bytes()
        done[damage(file, rng)] += 1
        said: list[str] = []
        found = path_of_latest(folder, said.append)
        if found == newest or len(said) != 1 or str(newest) not in said[0]:
            num_silent += 1
        file.write_bytes(good)
    assert path_of_latest(folder) == newest
    return done, num_silent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--damages", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", help="damage copies of this run's two newest checkpoints")
    flags = parser.parse_args()
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        done, num_lost = interrupted_saves(work)
        calls = ", ".join(f"{done[name]} × {name}" for name in CALLS if done[name])
        print(f"{sum(done.values())} interrupted saves ({calls}): {num_lost} times neither loaded")
        folder = work / "checkpoints"
        if flags.run:
            for path in sorted(Path(flags.run, "checkpoints").glob("step-*"))[-2:]:
                shutil.copytree(path, folder / path.name)
        else:
            for step in (1, 2):
                CheckpointStore(folder).save(step, *content(step))
        done, num_silent = damaged_checkpoints(folder, flags.damages, flags.seed)
        kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(done.items()))
        print(f"{sum(done.values())} damages ({kinds}): {num_silent} loaded silently")
    print(f"{time.monotonic() - started_s:.0f} s")
    return int(bool(num_lost or num_silent))


if __name__ == "__main__":
    sys.exit(main())
