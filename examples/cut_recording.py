"""Cut long recordings of read sentences at the pauses, and make a data set of the pieces.

    python examples/cut_recording.py take-1.wav take-2.wav --script sentences.txt --out my-voice

The script has a line for each sentence, in the order in which they were read, with a pause of two
seconds after each. A sentence that was read twice is two pieces: --without 7 leaves out the seventh.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import soundfile

FRAME_S = 0.02
MARGIN_S = 0.2  # of silence that a piece keeps at both ends
SHORTEST_S = 0.3  # what is shorter is a click, a cough or a page that turns


def pieces(audio: np.ndarray, rate: int, pause_s: float) -> list[tuple[float, float]]:
    """Begin and end in seconds of what stands between pauses. audio float32 (samples,)"""
    hop = int(rate * FRAME_S)
    frames = audio[: len(audio) // hop * hop].reshape(-1, hop)
    decibels = 20 * np.log10(np.sqrt((frames**2).mean(axis=1)) + 1e-7)
    room, voice = np.percentile(decibels, [10, 95])
    loud = np.flatnonzero(decibels > room + 0.35 * (voice - room))
    if not len(loud) or voice - room < 6:
        return []
    ends = np.flatnonzero(np.diff(loud) > pause_s / FRAME_S)
    begins = [loud[0], *loud[ends + 1]]
    found = [
        (max(0.0, first * FRAME_S - MARGIN_S), (last + 1) * FRAME_S + MARGIN_S)
        for first, last in zip(begins, [*loud[ends], loud[-1]], strict=True)
    ]
    return [(begin, end) for begin, end in found if end - begin - 2 * MARGIN_S >= SHORTEST_S]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("takes", nargs="+", type=Path, metavar="TAKE", help="wav, flac, mp3 or ogg")
    parser.add_argument("--script", type=Path, required=True, help="a line for each sentence")
    parser.add_argument("--out", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds, at least [1.0]")
    parser.add_argument("--without", type=int, nargs="+", default=[], help="numbers of pieces")
    flags = parser.parse_args()
    lines = [line.strip() for line in flags.script.read_text("utf-8").splitlines()]
    texts = [line.replace("|", " ") for line in lines if line]
    found: list[tuple[str, np.ndarray, int, str]] = []  # name, audio, rate, place
    for take in flags.takes:
        audio, rate = soundfile.read(take, dtype="float32", always_2d=True)
        audio = audio.mean(axis=1)
        for begin, end in pieces(audio, rate, flags.pause):
            name = f"{take.stem}-{len(found) + 1:04d}"
            part = audio[int(begin * rate) : int(end * rate)]
            found.append((name, part, rate, f"{take} at {begin:.1f} s, {end - begin:.1f} s"))
    kept = [each for number, each in enumerate(found, 1) if number not in flags.without]
    if len(kept) != len(texts):
        for number, (_, _, _, place) in enumerate(found, 1):
            print(f"{number:4}  {place}")
        print(
            f"❌ {len(kept)} pieces and {len(texts)} lines in {flags.script}. Listen where the list "
            "above and the script part: leave out what was read twice with --without, or set "
            "--pause (a smaller one cuts more often)."
        )
        return 2
    (flags.out / "wavs").mkdir(parents=True, exist_ok=True)
    for name, audio, rate, _ in kept:
        soundfile.write(flags.out / "wavs" / f"{name}.wav", audio, rate, subtype="PCM_16")
    rows = [f"{name}|{text}\n" for (name, *_), text in zip(kept, texts, strict=True)]
    (flags.out / "metadata.csv").write_text("".join(rows), "utf-8")
    minutes = sum(len(audio) / rate for _, audio, rate, _ in kept) / 60
    print(f"✂️  {len(rows)} recordings, {minutes:.1f} minutes, in {flags.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
