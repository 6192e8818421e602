"""How soon does a voice speak? Train through the launcher, speak held-out sentences, count errors.

    python benchmarks/voice.py --minutes 3
    python benchmarks/voice.py --voices slt rms awb kal16 --minutes 12

makes the corpus where it is not there yet, trains `tiny` on two fake GPUs for each seed, speaks the
held-out sentences of every voice from a held-out clip of that voice, and prints the word error rate
beside the recordings and copy synthesis, the ratio with its paired 95 % interval over all seeds,
the wall clock of each command and, for several voices, how often an independent speaker encoder
(resemblyzer) finds the speech nearest to the right speaker.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from voice_corpus import make_corpus
from voice_score import (
    Recogniser,
    copy_synthesis,
    num_word_errors,
    ratio_interval,
    read_metadata,
    read_wav,
    words_of,
)

ROOT = Path(__file__).resolve().parent.parent
# Of the budget, for what comes after the last step: samples, report, the launcher's own end.
_END_S = 6.0
_CLIPS_OF_A_SPEAKER = 30


def train(corpus: Path, run: Path, minutes: float, seed: int, flags: list[str]) -> float:
    """One command, as a user would give it; returns its wall clock in seconds."""
    started_s = time.perf_counter()
    subprocess.run(
        [
            sys.executable, "launcher.py", "--train-data", str(corpus / "train"),
            "--run-dir", str(run), "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1",
            "--model-size", "tiny", "--batch-size", "4", "--seed", str(seed), "--no-live",
            "--max-minutes", f"{minutes - _END_S / 60:.3f}", *flags,
        ],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - started_s


def speak(run: Path, reference: Path, texts: list[str], out: Path) -> list[Path]:
    """The texts in the voice of the reference; returns the wavs."""
    out.mkdir(parents=True, exist_ok=True)
    text_file = out / "texts.txt"
    text_file.write_text("\n".join(texts) + "\n", "utf-8")
    subprocess.run(
        [
            sys.executable, "launcher.py", "speak", "--run", str(run), "--reference",
            str(reference), "--text-file", str(text_file), "--out-dir", str(out),
        ],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return [out / f"{i:04d}.wav" for i in range(1, len(texts) + 1)]


def speaker_hits(corpus: Path, wavs: dict[str, list[Path]]) -> tuple[int, int]:
    """How many wavs resemblyzer finds nearest to their own speaker's recordings, and of how many."""
    from resemblyzer import VoiceEncoder, preprocess_wav

    encoder = VoiceEncoder("cpu", verbose=False)
    by_speaker: dict[str, list[Path]] = {}
    for path, speaker, _ in read_metadata(corpus / "train"):
        by_speaker.setdefault(speaker, []).append(path)
    centres = {
        speaker: np.mean(
            [encoder.embed_utterance(preprocess_wav(p)) for p in paths[:_CLIPS_OF_A_SPEAKER]], 0
        )
        for speaker, paths in by_speaker.items()
    }
    hits = total = 0
    for speaker, paths in wavs.items():
        for path in paths:
            voice = encoder.embed_utterance(preprocess_wav(path))
            hits += max(centres, key=lambda s: float(voice @ centres[s])) == speaker
            total += 1
    return hits, total


_recogniser: Recogniser | None = None  # of this process


def _make_recogniser() -> None:
    global _recogniser
    _recogniser = Recogniser()


def _errors(wanted: list[str], audio: np.ndarray) -> int:
    assert _recogniser is not None
    return num_word_errors(wanted, _recogniser.words(audio))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voices", nargs="+", default=["rms"])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--corpus-seed", type=int, default=1, help="another one: other sentences")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "voice")
    parser.add_argument("--train-flags", nargs=argparse.REMAINDER, default=[])
    flags = parser.parse_args()
    name = "-".join(flags.voices) + f"-{flags.corpus_seed}"
    corpus = flags.work / f"corpus-{name}"
    if not (corpus / "train" / "metadata.csv").exists():
        make_corpus(corpus, flags.voices, seed=flags.corpus_seed)
    rows = read_metadata(corpus / "held_out")
    wanted = [words_of(text) for _, _, text in rows]

    def errors_of(audios: list[np.ndarray]) -> np.ndarray:
        # A process each: TensorFlow's threads must not be forked, and a recogniser is not shared.
        with ProcessPoolExecutor(2, get_context("spawn"), _make_recogniser) as pool:
            return np.array(list(pool.map(_errors, wanted, audios, chunksize=4)))

    num_words = sum(map(len, wanted))
    recordings = [read_wav(path) for path, _, _ in rows]
    recorded, copied = errors_of(recordings), errors_of(copy_synthesis(recordings))
    print(f"{len(rows)} held-out sentences, {num_words} words")
    print(f"recordings      word error rate {recorded.sum() / num_words:.3f}")
    print(f"copy synthesis  word error rate {copied.sum() / num_words:.3f}", flush=True)
    all_errors = []
    for seed in flags.seeds:
        run = flags.work / f"run-{name}-{seed}-{time.strftime('%H%M%S')}"
        wall_s = train(corpus, run, flags.minutes, seed, flags.train_flags)
        wavs: dict[str, list[Path]] = {}
        for voice in flags.voices:
            own = [(path, text) for path, speaker, text in rows if speaker == voice]
            reference = own[0][0]
            texts = [text for _, text in own]
            wavs[voice] = speak(run, reference, texts, run / "spoken" / voice)
        # Rows are grouped by voice in the metadata, in the order of the voices.
        spoken = [read_wav(path) for voice in flags.voices for path in wavs[voice]]
        errors = errors_of(spoken)
        all_errors.append(errors)
        low, high = ratio_interval(errors, copied)
        words = (
            f"seed {seed}: {wall_s:.1f} s, word error rate {errors.sum() / num_words:.3f}, "
            f"{errors.sum() / copied.sum():.3f} x copy synthesis [{low:.3f}, {high:.3f}]"
        )
        for voice in flags.voices if len(flags.voices) > 1 else ():
            is_own = np.array([speaker == voice for _, speaker, _ in rows])
            words += (
                f"\n  {voice}: {errors[is_own].sum() / copied[is_own].sum():.3f} x copy synthesis"
            )
        if len(flags.voices) > 1:
            hits, total = speaker_hits(corpus, wavs)
            words += f"\n  nearest to the right speaker: {hits} of {total} ({hits / total:.1%})"
        print(words, flush=True)
    mean = np.mean(all_errors, axis=0)
    low, high = ratio_interval(mean, copied)
    print(f"all seeds: {mean.sum() / copied.sum():.3f} x copy synthesis [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
