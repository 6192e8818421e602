"""What a benchmark does to reading an utterance: storage that answers late, or work in Python.

TANDEM_BENCH_ALTER=storage-20ms waits 20 ms before every file, as network storage does;
TANDEM_BENCH_ALTER=python adds text processing and augmentation in plain Python to every file.
The same for Tandem's data process (`python benchmarks/alterations.py --run …` starts one) and for
its peers.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

VARIABLE = "TANDEM_BENCH_ALTER"
ROUNDS_VARIABLE = "TANDEM_BENCH_PYTHON_ROUNDS"  # of the work in Python, about 90 µs each
KINDS = ("storage-20ms", "python")
_LATENCY_S = 0.020
_TEXT = (
    "On 14 March 1859, at 5:30 in the morning, Dr. Adams paid £3,200.50 for 17 old maps; "
    "Mrs. Bell, who had 2 of them already, said that it was far too much."
)
_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def python_work(text: str = _TEXT) -> int:
    """A few milliseconds of what text front ends and augmentation do in Python."""
    total = 0
    for seed in range(int(os.environ.get(ROUNDS_VARIABLE) or 30)):
        words = re.sub(r"\d", lambda digit: f" {_ONES[int(digit[0])]} ", text.lower()).split()
        state = seed + 1
        for word in words:
            letters = [letter for letter in word if letter.isalpha()]
            for position, letter in enumerate(letters):
                state = (state * 1_103_515_245 + 12_345 + ord(letter) * position) & 0x7FFFFFFF
                if state % 7 == 0:
                    letters[position] = letter.upper()
            total += len("".join(letters))
    return total


def apply() -> None:
    """Put the alteration that the environment asks for around the reading of a file."""
    kind = os.environ.get(VARIABLE)
    if not kind:
        return
    from shared.speech import utterance

    load = utterance.load_utterance

    def slow(*arguments):
        time.sleep(_LATENCY_S)
        return load(*arguments)

    def heavy(*arguments):
        python_work()
        return load(*arguments)

    utterance.load_utterance = {"storage-20ms": slow, "python": heavy}[kind]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    apply()
    from data_worker.__main__ import main

    sys.exit(main())
