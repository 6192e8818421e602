"""What do watchers take from a run? Three terminals and two pages, against nobody.

    python benchmarks/watchers.py [--repeats 6] [--seconds 12]

One run on two fake GPUs, watched and alone in turns. `watch` runs three times on terminals of its
own, `watch --web` once, with two readers who ask it what the page's script asks, as often. All of them
share the two cores with the run, which people at other desks would not. A repeat is the time of a step
in the quieter half of its steps, watched, over the same alone, the two right after each other.
"""

from __future__ import annotations

import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import results
import workload
from quiet_windows import WARM_UP_S, Window, cpu_seconds_of_others
from real_run import RealRun, windows_of
from results import Line

GOAL = 1.01
TERMINALS, READERS = 3, 2
_SETTLING_S = 3.0  # after watchers come or go: they import what they need, or free it
_LOOK_EVERY_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def terminal(run: Path) -> Iterator[int]:
    """`watch` on a terminal that is read; gives its pid."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "launcher.py", "watch", str(run)],
        cwd=workload.ROOT, env={**workload.environment(), "TERM": "xterm-256color", "CI": ""},
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    reader = threading.Thread(target=_read_all, args=(ours,), daemon=True)
    reader.start()
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()
        reader.join()
        os.close(ours)


def _read_all(descriptor: int) -> None:
    with suppress(OSError):
        while os.read(descriptor, 1 << 16):
            pass


@contextmanager
def page(run: Path) -> Iterator[tuple[int, str]]:
    """`watch --web`; gives its pid and its link."""
    process = subprocess.Popen(
        [sys.executable, "launcher.py", "watch", str(run), "--web"],
        cwd=workload.ROOT, env=workload.environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "no link"
        yield process.pid, found[0]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def reader(link: str) -> Iterator[None]:
    """Asks what the page asks: once a second how it is, and its curves when they are others."""
    is_over = threading.Event()

    def ask() -> None:
        seen = b""
        while not is_over.wait(1.0):
            with urllib.request.urlopen(f"{link}now", timeout=30) as answer:
                now = answer.read()
            versions = now[now.rfind(b'"versions"') :]
            if versions != seen:
                seen = versions
                with urllib.request.urlopen(f"{link}story", timeout=30) as answer:
                    answer.read()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS


def step_ms(tandem: RealRun, seconds: float) -> float:
    """Wall clock of a step over the quieter half of the steps of so many seconds."""
    looks: list[tuple[float, float]] = []
    begun_s = time.time()
    while time.time() < begun_s + seconds:
        looks.append((time.time(), cpu_seconds_of_others()))
        time.sleep(_LOOK_EVERY_S)
    records = [r for r in tandem.records() if begun_s <= r["time"] <= begun_s + seconds]
    windows = sorted(windows_of(records, looks), key=lambda window: window.others)
    half: list[Window] = windows[: max(1, len(windows) // 2)]
    return 1000 * statistics.median(window.wall_s / window.count for window in half)


def main() -> None:
    parser = results.parser_of(__doc__, repeats=6)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each measurement")
    flags = parser.parse_args()
    alone: list[float] = []
    watched: list[float] = []
    shares: list[float] = []  # of a core: what all the watchers use
    launcher_shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="watchers-") as place:
        folder = Path(place)
        corpus = workload.make_corpus(folder)
        with RealRun(corpus, folder / "run", "--log-every", "1", "--num-workers", "1") as tandem:
            tandem.first_step_s()
            time.sleep(WARM_UP_S)
            launcher = tandem._children[0].pid
            for repeat in range(flags.repeats):
                for is_watched in (repeat % 2 == 0, repeat % 2 == 1):  # either is first in turn
                    with ExitStack() as watchers:
                        pids = []
                        if is_watched:
                            pids = [watchers.enter_context(terminal(tandem.run))
                                    for _ in range(TERMINALS)]  # fmt: skip
                            pid, link = watchers.enter_context(page(tandem.run))
                            pids.append(pid)
                            for _ in range(READERS):
                                watchers.enter_context(reader(link))
                        time.sleep(_SETTLING_S)
                        before = sum(map(cpu_seconds, pids))
                        launcher_before, begun_s = cpu_seconds(launcher), time.monotonic()
                        took_ms = step_ms(tandem, flags.seconds)
                        wall_s = time.monotonic() - begun_s
                        if is_watched:
                            shares.append((sum(map(cpu_seconds, pids)) - before) / wall_s)
                        launcher_shares.append((cpu_seconds(launcher) - launcher_before) / wall_s)
                        (watched if is_watched else alone).append(took_ms)
                    results.say(f"{'watched' if is_watched else 'alone'}: {took_ms:.2f} ms a step")
    results.finish(flags, [
        Line("a step, watched by 3 terminals and 2 pages / alone", results.ratios(watched, alone),
             most=GOAL),
        Line("a step, alone / alone in the repeat before", results.ratios(alone[1:], alone),
             note="how far two measurements of the same lie apart here"),
        Line("all watchers together", shares, "of a core"),
        Line("the launcher, with its status", launcher_shares, "of a core"),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
