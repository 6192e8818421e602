"""What do watchers take from a run? Three terminals and two pages, against nobody.

    python benchmarks/watchers.py [--repeats 40] [--seconds 3]

One run on two fake GPUs, watched and alone in turns. `watch` runs three times on terminals of its
own, `watch --web` once, with two readers who ask it what the page's script asks, as often. All of them
share the two cores with the run, which people at other desks would not. They are held (SIGSTOP) while
the run is alone. A repeat is the time of a step, watched, over the same alone, right after each other.
"""

from __future__ import annotations

import itertools
import os
import pty
import re
import signal
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
from quiet_windows import WARM_UP_S
from real_run import RealRun
from results import Line

GOAL = 1.01
TERMINALS, READERS = 3, 2
_SETTLING_S = 0.3  # after watchers were held, or let go
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
def reader(link: str, is_watching: threading.Event) -> Iterator[None]:
    """Asks what the page asks: once a second how it is, and its curves when they are others."""
    is_over = threading.Event()

    def ask() -> None:
        seen = b""
        while not is_over.wait(1.0):
            if not is_watching.is_set():
                continue
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
    """Wall clock of a step: the median of those that were logged in so many seconds."""
    begun_s = time.time()
    time.sleep(seconds)
    times_s = [r["time"] for r in tandem.records() if begun_s <= r["time"] <= begun_s + seconds]
    return 1000 * statistics.median(b - a for a, b in itertools.pairwise(times_s))


class Watchers:
    """All of them; they look, or are held."""

    def __init__(self, run: Path, stack: ExitStack):
        self.pids = [stack.enter_context(terminal(run)) for _ in range(TERMINALS)]
        pid, link = stack.enter_context(page(run))
        self.pids.append(pid)
        self._is_watching = threading.Event()
        stack.callback(self.look)  # what is held could not end
        self.look()
        for _ in range(READERS):
            stack.enter_context(reader(link, self._is_watching))

    def look(self) -> None:
        self._is_watching.set()
        self._signal(signal.SIGCONT)

    def hold(self) -> None:
        self._is_watching.clear()
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            os.kill(pid, number)


def main() -> None:
    parser = results.parser_of(__doc__, repeats=40)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    flags = parser.parse_args()
    took_ms: dict[bool, list[float]] = {False: [], True: []}  # by whether it was watched
    shares: list[float] = []  # of a core: what all the watchers use
    launcher_shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="watchers-") as place, ExitStack() as stack:
        folder = Path(place)
        corpus = workload.make_corpus(folder)
        flags_of_run = ("--log-every", "1", "--num-workers", "1", "--batch-size", "4")
        tandem = stack.enter_context(RealRun(corpus, folder / "run", *flags_of_run))
        tandem.first_step_s()
        watchers = Watchers(tandem.run, stack)
        time.sleep(WARM_UP_S)
        launcher = tandem._children[0].pid
        for repeat in range(flags.repeats):
            for is_watched in (repeat % 2 == 0, repeat % 2 == 1):  # either is first in turn
                watchers.look() if is_watched else watchers.hold()
                time.sleep(_SETTLING_S)
                before, begun_s = sum(map(cpu_seconds, watchers.pids)), time.monotonic()
                launcher_before = cpu_seconds(launcher)
                took_ms[is_watched].append(step_ms(tandem, flags.seconds))
                wall_s = time.monotonic() - begun_s
                if is_watched:
                    shares.append((sum(map(cpu_seconds, watchers.pids)) - before) / wall_s)
                launcher_shares.append((cpu_seconds(launcher) - launcher_before) / wall_s)
            results.say(
                f"{repeat + 1}: watched {took_ms[True][-1]:.2f} ms a step, "
                f"alone {took_ms[False][-1]:.2f} ms"
            )
    alone, watched = took_ms[False], took_ms[True]
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
