"""The same as overlap.py with a user's own task: a frozen network on the data side, a head to train.

    python benchmarks/own_task.py [--repeats 3] [--seconds 8]

The task is examples/frozen_network.py, whose features cost as much as its training step: what two
GPUs are for. The peers that are written for speech take no part.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import overlap
import workload

TASK = workload.ROOT / "examples" / "frozen_network.py"
PICTURES = workload.ROOT / "examples" / "make_pictures.py"
GOAL = 0.97
PEERS: dict[str, float | None] = {"sequential": 1.7}


def make_pictures(folder: Path) -> Path:
    """400 pictures of three classes."""
    corpus = folder / "pictures"
    subprocess.run(
        [sys.executable, str(PICTURES), str(corpus), "134"], check=True, stdout=sys.stderr
    )
    return corpus


if __name__ == "__main__":
    os.environ[workload.TASK_VARIABLE] = str(TASK)
    overlap.main(PEERS, GOAL, __doc__, make_pictures)
