"""Stops at random moments: a run is stopped and gone on with, again and again, then ended."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import time
from pathlib import Path

from fault_check import violations_of
from fault_kinds import Told
from fault_runs import Run

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
ALLOWED_S = 20.0
KILLED_ALLOWED_S = 2.0
INTERRUPTED = 130
_LAUNCHER_STARTS_S = 0.15  # before this Python itself may not be ready to take a signal


def stop_again_and_again(
    flags: argparse.Namespace, work: Path, corpus: Path, reference: Path, told: Told
) -> list[str]:
    """`flags.stops` stops by each signal, and as many kills of the launcher; returns violations."""
    rng = random.Random(flags.seed)
    folder = work / f"stops-{flags.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    found: list[str] = []
    numbers = [*SIGNALS, signal.SIGKILL] * flags.stops
    rng.shuffle(numbers)
    arguments = ["--max-steps", str(flags.steps)]
    for done, number in enumerate(numbers):
        is_stopped = False
        while not is_stopped:
            run = Run(folder, corpus, work, *arguments)
            try:
                is_stopped, problems = _stop_once(run, number, rng, told)
                found += problems
            finally:
                run.end()
            if run.process.returncode == 0:  # it finished: the next one starts over
                found += violations_of(folder, reference)
                shutil.rmtree(folder)
        if done % 20 == 19:
            print(f"{done + 1} of {len(numbers)} stops, {len(found)} violations", flush=True)
    last = Run(folder, corpus, work, *arguments)
    if last.process.wait() != 0:
        found.append(f"the last run ended with {last.process.returncode}")
    return found + violations_of(folder, reference)


def _stop_once(
    run: Run, number: signal.Signals, rng: random.Random, told: Told
) -> tuple[bool, list[str]]:
    """Send one signal at a random moment, see that the run ends as it must.

    Returns whether it was there to be stopped, and in what it did not end as it must.
    """
    moment_s = rng.choice([rng.uniform(0, 4), rng.uniform(4, 16)])
    while time.monotonic() - run.started_s < moment_s and not run.is_over:
        run.look()
        time.sleep(0.01)
    run.look()
    sent_s = time.monotonic()
    if run.is_over or not run.signal(run.process.pid, number):
        return False, []
    told.count(f"{number.name} to the launcher")
    when = f"{number.name} after {moment_s:.2f} s"
    while not run.is_over and time.monotonic() - sent_s < 2 * ALLOWED_S:
        run.look()
        time.sleep(0.01)
    took_s = time.monotonic() - sent_s
    code = run.process.poll()
    found = [f"left behind by {when}: {thing}" for thing in _remains(run, number)]
    if number == signal.SIGKILL:
        return True, found
    told.recovered(f"from {number.name} to the end", took_s)
    if took_s > ALLOWED_S:
        found.append(f"{when}: it took {took_s:.1f} s")
    early = code == -number and moment_s < _LAUNCHER_STARTS_S
    if code not in (0, INTERRUPTED) and not early:
        found.append(f"{when}: exit code {code}")
    return True, found


def _remains(run: Run, number: signal.Signals) -> list[str]:
    """What is left; a killed launcher can't remove its files, and nothing may stumble on them."""
    left = run.remains(KILLED_ALLOWED_S)
    return [thing for thing in left if number != signal.SIGKILL or thing.startswith("process")]
