"""How much has to be recorded? Train on 10, 20 and 45 minutes of a voice, and score what each speaks.

    python benchmarks/recordings_needed.py --data my-voice --language de --minutes 10 20 45

`--data` is a folder with metadata.csv (`name|text`) and wavs/. Of the recordings 40 are held out, never trained
on. Of the others as many are taken as make up the minutes, the smaller sets within the larger ones. Each set
trains one voice through the launcher, with the same budget (`--budget`, in minutes), which speaks the held-out
texts. Beside the recordings, and copies of them by Griffin-Lim, each is scored by DNSMOS (speechmos) and
distillMOS, with 95 % intervals over sentences drawn again, and by its sounds: pocketsphinx writes down the
phones that it hears in the speech and in the recording of the same sentence, and those that differ are
counted. Its phones are those of English. Of another language that compares one row with the next, and is no
rate of mistakes. In English its words are counted as well. A scorer that is not installed is named.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import soundfile
import soxr
from vocoder import HELD_OUT, SCORED_HZ, interval, scorers, split
from voice_score import (
    DRAWS,
    PEAK,
    RECOGNISER_RATE,
    SILENCE_SAMPLES,
    Recogniser,
    copy_synthesis,
    num_word_errors,
    read_wav,
    words_of,
)

ROOT = Path(__file__).resolve().parent.parent
RATE = 22_050


class PhoneRecogniser:
    """pocketsphinx without words: the phones that it hears, each clip on its own."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder, get_model_path

        self._decoder = Decoder(
            lm=None,
            allphone=get_model_path("en-us/en-us-phone.lm.bin"),
            lw=2.0, beam=1e-20, pbeam=1e-20, loglevel="FATAL",
        )  # fmt: skip

    def phones(self, audio: np.ndarray) -> list[str]:
        """What was heard, without silence and noise. audio float32 (samples,) at 22,050 Hz"""
        audio = soxr.resample(audio, RATE, RECOGNISER_RATE)
        audio = np.pad(audio / max(float(np.abs(audio).max()), 1e-6) * PEAK, SILENCE_SAMPLES)
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw((audio * 32767).astype(np.int16).tobytes(), full_utt=True)
        self._decoder.end_utt()
        return [
            part.word for part in self._decoder.seg() if part.word.isalpha() and part.word != "SIL"
        ]


def subset(train: Path, out: Path, minutes: float) -> tuple[Path, float]:
    """So many minutes of it in a folder of their own, and how many they are; nested for one seed."""
    lines = [line for line in (train / "metadata.csv").read_text("utf-8").splitlines() if line]
    random.Random(1).shuffle(lines)
    (out / "wavs").mkdir(parents=True, exist_ok=True)
    kept, seconds = [], 0.0
    for line in lines:
        if seconds >= minutes * 60:
            break
        (path,) = (train / "wavs").glob(Path(line.split("|")[0]).stem + ".*")
        seconds += soundfile.info(path).duration
        if not (out / "wavs" / path.name).exists():
            shutil.copy(path, out / "wavs")
        kept.append(line)
    if seconds < minutes * 60:
        sys.exit(
            f"❌ --minutes {minutes:g}: only {seconds / 60:.1f} are there, beside those held out."
        )
    (out / "metadata.csv").write_text("\n".join(kept) + "\n", "utf-8")
    return out, seconds / 60


def train(data: Path, run: Path, budget: float, flags: list[str]) -> None:
    """One command, as a user would give it."""
    subprocess.run(
        [
            sys.executable, "launcher.py", "--train-data", str(data), "--run-dir", str(run),
            "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
            "--batch-size", "4", "--no-live", "--max-minutes", f"{budget:g}", *flags,
        ],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def speak(run: Path, texts: list[str]) -> list[np.ndarray]:
    """The texts in the voice of the run."""
    out = run / "spoken"
    out.mkdir(exist_ok=True)
    (out / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    subprocess.run(
        [
            sys.executable, "launcher.py", "speak", "--run", str(run), "--text-file",
            str(out / "texts.txt"), "--out-dir", str(out),
        ],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return [read_wav(out / f"{number:04d}.wav") for number in range(1, len(texts) + 1)]


def rate_of(errors: list[int], lengths: list[int]) -> str:
    """Errors for each that there is, with the 95 % interval over sentences drawn again."""
    wrong, right = np.array(errors), np.array(lengths)
    rows = np.random.default_rng(0).integers(0, len(wrong), (DRAWS, len(wrong)))
    low, high = np.percentile(wrong[rows].sum(axis=1) / right[rows].sum(axis=1), [2.5, 97.5])
    return f"{wrong.sum() / right.sum():.3f} [{low:.3f}, {high:.3f}]"


class Judge:
    """Scores what was made of the held-out sentences, beside their recordings."""

    def __init__(self, recordings: list[np.ndarray], texts: list[str], is_english: bool):
        self._recordings = recordings
        self._scorers = {name: score for name, score in scorers().items() if name != "PESQ"}
        self._phones = self._words = None
        try:
            self._phones = PhoneRecogniser()
            self._words = Recogniser() if is_english else None
            self._heard = [self._phones.phones(audio) for audio in recordings]
        except ImportError:
            print("phones and words: not measured, pocketsphinx is not installed")
        self._wanted = [words_of(text) for text in texts]

    def __call__(self, name: str, made: list[np.ndarray]) -> None:
        """Print the row."""
        said = []
        at_rate = [soxr.resample(audio, RATE, SCORED_HZ).astype(np.float32) for audio in made]
        for scorer, score in self._scorers.items():
            values = np.array([score(audio, audio) for audio in at_rate])
            said.append(f"{scorer} {interval(values)}")
        if self._phones is not None:
            heard = [self._phones.phones(audio) for audio in made]
            errors = [num_word_errors(a, b) for a, b in zip(self._heard, heard, strict=True)]
            said.append(f"phones that differ {rate_of(errors, [len(a) for a in self._heard])}")
        if self._words is not None:
            understood = [self._words.words(audio) for audio in made]
            errors = [num_word_errors(a, b) for a, b in zip(self._wanted, understood, strict=True)]
            said.append(f"word errors {rate_of(errors, [len(a) for a in self._wanted])}")
        print(f"{name:30s} " + "; ".join(said), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, nargs="+", default=[10.0, 20.0, 45.0])
    parser.add_argument("--budget", type=float, default=12.0, help="minutes of each training")
    parser.add_argument("--language", default="en-us")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="recordings [40]")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "recordings_needed")
    parser.add_argument("--train-flags", nargs=argparse.REMAINDER, default=[])
    flags = parser.parse_args()
    folder = flags.work / time.strftime("%H%M%S")
    rest, paths, texts = split(flags.data, folder, flags.held_out)
    recordings = [read_wav(path) for path in paths]
    judge = Judge(recordings, texts, flags.language.startswith("en"))
    print(f"{len(texts)} held-out sentences; {flags.budget:g} minutes of training each")
    judge("recordings", recordings)
    judge("copies by Griffin-Lim", copy_synthesis(recordings))
    for wanted in flags.minutes:
        data, minutes = subset(rest, folder / f"{wanted:g}", wanted)
        run = folder / f"run-{wanted:g}"
        train(data, run, flags.budget, ["--language", flags.language, *flags.train_flags])
        judge(f"{minutes:.0f} minutes of recordings", speak(run, texts))


if __name__ == "__main__":
    main()
