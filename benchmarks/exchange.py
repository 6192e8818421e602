"""What it costs replicas to add up a step: milliseconds, beside copying as much memory once.

    python benchmarks/exchange.py [--values 6000000] [--replicas 2 3] [--rounds 40]

The first replica is this process, each other one a process of its own, as in a run on one machine:
every round all of them say a vector of so many float32 values, and all have the sum. Nothing is
computed in between. The median of the rounds and their middle 80 %.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time

import numpy as np

from model_worker.replicas.exchange import Hub, Spoke, Told
from model_worker.replicas.words import Begin, Contribution, Total

_WARM_UP_ROUNDS = 5


def nothing() -> None:
    """While it waits."""


def arrays_of(num_values: int, rank: int) -> list[np.ndarray]:
    """A vector as a model's gradients make it, and no operands."""
    vector = np.random.default_rng(rank).normal(size=num_values).astype(np.float32)
    return [vector, np.zeros((1, 0), np.float32)]


def follow(endpoint: str, rank: int, num_values: int) -> None:
    spoke = Spoke(endpoint, rank)
    spoke.wait_for_order(nothing)
    arrays = arrays_of(num_values, rank)
    try:
        for step in range(1 << 30):
            spoke.say(Contribution(0, step, step, [], {}), arrays, nothing)
    except Told:
        spoke.close()


def measure(num_values: int, num_replicas: int, num_rounds: int) -> list[float]:
    """Milliseconds of each round."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"ipc://{folder}/x"
        hub = Hub(endpoint, num_replicas)
        others = [
            spawn.Process(target=follow, args=(endpoint, rank, num_values), daemon=True)
            for rank in range(1, num_replicas)
        ]
        for other in others:
            other.start()
        hub.begin(Begin(0, 0, 0, [], [], {}, []), [], nothing)
        arrays, word, taken_ms = arrays_of(num_values, 0), Total(0, 0.1, 0.9), []
        for step in range(_WARM_UP_ROUNDS + num_rounds):
            begun_s = time.perf_counter()
            hub.add(Contribution(0, step, step, [], {}), arrays, word, True, nothing)
            taken_ms.append((time.perf_counter() - begun_s) * 1000)
        hub.stop(0)
        for other in others:
            other.join(10)
        hub.close()
    return taken_ms[_WARM_UP_ROUNDS:]


def copy_ms(num_values: int) -> float:
    """To copy one such vector."""
    source = arrays_of(num_values, 0)[0]
    target = np.empty_like(source)
    taken_s = []
    for _ in range(20):
        begun_s = time.perf_counter()
        np.copyto(target, source)
        taken_s.append(time.perf_counter() - begun_s)
    return statistics.median(taken_s) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--values", type=int, default=6_000_000)
    parser.add_argument("--replicas", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--rounds", type=int, default=40)
    flags = parser.parse_args()
    once_ms = copy_ms(flags.values)
    megabytes, cores = flags.values * 4 / 1e6, len(os.sched_getaffinity(0))
    print(f"{megabytes:.0f} MB for each replica, {cores} cores; to copy it once: {once_ms:.1f} ms")
    for num_replicas in flags.replicas:
        taken = sorted(measure(flags.values, num_replicas, flags.rounds))
        low, high = taken[len(taken) // 10], taken[-1 - len(taken) // 10]
        middle = statistics.median(taken)
        print(
            f"{num_replicas} replicas: {middle:.1f} ms ({low:.1f} to {high:.1f}), "
            f"{middle / once_ms:.1f} copies"
        )


if __name__ == "__main__":
    main()
