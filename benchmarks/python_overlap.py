"""The same as overlap.py with a data side that is busy in Python: text processing, augmentation.

    python benchmarks/python_overlap.py [--repeats 3] [--seconds 8]

Every file read costs a few milliseconds of plain Python on top (see alterations.py), as many as
make the two sides equally slow on this machine: where overlapping pays most, and where threads of
one process get in each other's way. A tf.data service takes no part: a data set that calls Python
can't be run by it in another process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import alterations
import overlap
import results
import workload

GOAL = 0.97
# The sides are balanced; a torch worker is no in-process peer.
PEERS = {"sequential": 1.7, "tf.data": 1.0, "torch": None}


def balance() -> None:
    """Choose the amount of Python with which the data side is as slow as the model side."""
    with tempfile.TemporaryDirectory(prefix="balance-") as place:
        corpus = workload.make_corpus(Path(place))
        workload.prepare(corpus, Path(place) / "prepared")
        os.environ[alterations.ROUNDS_VARIABLE] = "30"
        period_s = {}
        for kind in ("data", "model"):
            period_s[kind] = 1 / overlap.measure(kind, corpus, Path(place), 4.0)["rate"]
        os.environ[alterations.ROUNDS_VARIABLE] = "60"
        heavier_s = 1 / overlap.measure("data", corpus, Path(place), 4.0)["rate"]
    per_round_s = (heavier_s - period_s["data"]) / 30
    rounds = max(1, round(30 + (period_s["model"] - period_s["data"]) / per_round_s))
    os.environ[alterations.ROUNDS_VARIABLE] = str(rounds)
    results.say(f"  balanced with {rounds} rounds of Python for each file")


if __name__ == "__main__":
    os.environ[alterations.VARIABLE] = "python"
    if alterations.ROUNDS_VARIABLE not in os.environ:
        balance()
    overlap.main(PEERS, GOAL, __doc__)
