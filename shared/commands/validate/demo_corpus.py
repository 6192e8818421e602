"""A tiny corpus, spoken here, for checks that need some data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from shared.errors import TandemError
from shared.launching.places import child_environment

_NUM_UTTERANCES = 32


def make_demo_corpus(folder: Path) -> Path:
    """Speak it into a folder of that folder.

    Raises:
        TandemError: it can't be made, and why.
    """
    corpus = folder / "corpus"
    command = [sys.executable, "-m", "data_worker.speech.demo.corpus", "--out", str(corpus)]
    made = subprocess.run(
        [*command, "--num", str(_NUM_UTTERANCES), "--voices", "2"],
        env=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
        capture_output=True,
        check=False,
    )
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip().removeprefix("❌ ")
        raise TandemError(f"the demo corpus can't be made: {said}")
    return corpus
