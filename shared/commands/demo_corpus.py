"""A small corpus, spoken here, for commands that need some data and were given none."""

from __future__ import annotations

import subprocess
from pathlib import Path

from shared.errors import TandemError
from shared.worker.child_environment import child_environment, python_command
from shared.worker.foreground import WRONG


def make_demo_corpus(folder: Path, num_examples: int, num_groups: int) -> Path:
    """Speak it into a folder of that folder; its groups are voices.

    Raises:
        TandemError: it can't be made, and why.
    """
    corpus = folder / "corpus"
    command = python_command("-m", "data_worker.speech.demo.corpus", "--out", str(corpus))
    made = subprocess.run(
        [*command, "--num", str(num_examples), "--voices", str(num_groups)],
        env=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
        capture_output=True,
        check=False,
    )
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip().removeprefix(WRONG)
        raise TandemError(f"the demo corpus can't be made: {said}")
    return corpus
