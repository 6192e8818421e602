"""The demo corpus: our own sentences spoken by espeak-ng, made in seconds, no download.

python -m data_worker.speech.demo.corpus --out DIR [--num 240] [--voices 3]

Layout: DIR/wavs/demo-0001.wav, … (22,050 Hz, 16 bit, mono) and DIR/metadata.csv with one line
`path|speaker|text` per utterance, as in wavs/demo-0001.wav|anna|The old horse slept by the river.
"""

from __future__ import annotations

import argparse
import os
import sys
import wave
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data_worker.speech.demo.sentences import demo_sentences
from shared.errors import InputError, TandemError
from shared.speech.text.espeak import SAMPLE_RATE, Espeak
from shared.whole_file import whole_file
from shared.worker.foreground import WRONG

_MARGIN_S = 0.05


class _Speaker(NamedTuple):
    """A voice: espeak-ng's variant, and how high and how fast it speaks."""

    name: str
    variant: str
    pitch: int
    words_per_minute: int


SPEAKERS = (
    _Speaker("ben", "", 45, 160),
    _Speaker("anna", "f2", 55, 160),
    _Speaker("carl", "m7", 30, 150),
    _Speaker("dora", "f4", 65, 170),
    _Speaker("emil", "m3", 60, 165),
    _Speaker("faye", "f5", 45, 150),
)


def make_demo_corpus(
    out: str | os.PathLike, num_utterances: int = 240, num_voices: int = 3, seed: int = 1
) -> Path:
    """Write the corpus into the folder `out`; the voices take turns. Returns the metadata's path.

    Raises:
        InputError: the counts make no corpus, or the folder can't be written.
    """
    if not 1 <= num_voices <= len(SPEAKERS):
        raise InputError(f"--voices {num_voices}: there are 1 to {len(SPEAKERS)} voices.")
    if not 1 <= num_utterances <= 100_000:
        raise InputError(f"--num {num_utterances}: expected 1 to 100,000 utterances.")
    out = Path(out)
    try:
        (out / "wavs").mkdir(parents=True, exist_ok=True)
        lines: list[tuple[int, str]] = []
        sentences = demo_sentences(num_utterances, seed)
        for number_of_voice, speaker in enumerate(SPEAKERS[:num_voices]):
            voice = Espeak("en-us", speaker.variant)
            for number in range(number_of_voice, num_utterances, num_voices):
                name = f"wavs/demo-{number + 1:04d}.wav"
                samples = voice.speak(
                    sentences[number],
                    pitch=speaker.pitch,
                    words_per_minute=speaker.words_per_minute,
                )
                _write_wav(out / name, samples)
                lines.append((number, f"{name}|{speaker.name}|{sentences[number]}\n"))
        # The metadata last: a corpus that was interrupted is not taken for a whole one.
        with whole_file(out / "metadata.csv", durable=False) as file:
            file.write("".join(line for _, line in sorted(lines)).encode())
    except OSError as error:
        raise InputError(f"{error.filename or out}: can't be written ({error.strerror}).") from None
    return out / "metadata.csv"


def _write_wav(path: Path, samples: np.ndarray) -> None:
    """Write int16 (samples,) at 22,050 Hz with a little silence at both ends."""
    silence = np.zeros(round(_MARGIN_S * SAMPLE_RATE), np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(np.concatenate([silence, samples, silence]).astype("<i2").tobytes())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_worker.speech.demo.corpus", description="Make a small speech corpus."
    )
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--num", type=int, default=240, help="utterances (240)")
    parser.add_argument("--voices", type=int, default=3, help="voices that take turns (3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sentences (1)")
    options = parser.parse_args(arguments)
    try:
        metadata = make_demo_corpus(options.out, options.num, options.voices, options.seed)
    except TandemError as error:
        print(f"{WRONG}{error}", file=sys.stderr)
        return error.exit_code
    print(f"{options.num} utterances by {options.voices} voices: {metadata}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
