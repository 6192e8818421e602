"""How well a recogniser understands speech: the model's beside the recordings and copy synthesis.

    python benchmarks/voice_score.py --held-out corpora/rms/held_out --spoken spoken/rms

`--spoken` holds one wav for each line of the held-out metadata, in its order (0001.wav, …), as
`launcher.py speak --text-file` writes them. pocketsphinx listens with the English model and
language model it carries. Copy synthesis is Griffin-Lim of the recordings' true mels: what the
vocoder alone costs. The ratio's interval comes from drawing sentences again (paired bootstrap).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shared.speech import mel as mel_definition

RECOGNISER_RATE = 16_000
SILENCE_SAMPLES = 3_200  # on both sides: a recogniser needs to hear that speech begins
PEAK = 0.8
BATCH = 16
DRAWS = 10_000
TRIM_DB = 50.0
TRIM_MARGIN_S = 0.05


def read_metadata(folder: Path) -> list[tuple[Path, str, str]]:
    """(wav, speaker, text) of every line of a `path|speaker|text` folder."""
    lines = (folder / "metadata.csv").read_text("utf-8").splitlines()
    rows = [line.split("|") for line in lines if line.strip()]
    return [(folder / path, speaker, text) for path, speaker, text in rows]


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def read_wav(path: Path) -> np.ndarray:
    """A recording at 22,050 Hz as the model hears it: silence trimmed, peak 0.95; float32."""
    audio, rate = soundfile.read(path, dtype="float32")
    loud = np.nonzero(np.abs(audio) > np.abs(audio).max() * 10 ** (-TRIM_DB / 20))[0]
    margin = int(TRIM_MARGIN_S * rate)
    audio = audio[max(0, loud[0] - margin) : loud[-1] + margin]
    audio = soxr.resample(audio, rate, mel_definition.SAMPLE_RATE)
    return audio / np.abs(audio).max() * 0.95


class Recogniser:
    """pocketsphinx with its own English models. Each clip is heard on its own, always the same."""

    def __init__(self):
        from pocketsphinx import Decoder

        self._decoder = Decoder(loglevel="FATAL")

    def _listen(self, audio: np.ndarray) -> None:
        audio = soxr.resample(audio, mel_definition.SAMPLE_RATE, RECOGNISER_RATE)
        audio = audio / max(float(np.abs(audio).max()), 1e-6) * PEAK
        padded = np.pad(audio, SILENCE_SAMPLES)
        # Without this the running mean of the features would remember the clip before.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        samples = (padded * 32767).astype(np.int16).tobytes()
        self._decoder.process_raw(samples, no_search=False, full_utt=True)
        self._decoder.end_utt()

    def words(self, audio: np.ndarray) -> list[str]:
        """What was understood. audio float32 (samples,) at 22,050 Hz"""
        self._listen(audio)
        heard = self._decoder.hyp()
        return [re.sub(r"\(\d+\)", "", word) for word in (heard.hypstr.split() if heard else [])]

    def word_ends_s(self, audio: np.ndarray, text: str) -> list[tuple[str, float]] | None:
        """End of each word by forced alignment, in seconds of `audio`; None where it fails."""
        words = words_of(text)
        if any(self._decoder.lookup_word(word) is None for word in words):
            return None
        self._decoder.set_align_text(" ".join(words))
        try:
            self._listen(audio)
            found = [
                (re.sub(r"\(\d+\)", "", part.word), (part.end_frame + 1) / 100)
                for part in self._decoder.seg()
                if not part.word.startswith(("<", "["))
            ]
        except (RuntimeError, TypeError):
            found = []
        finally:
            self._decoder.activate_search()
        if [word for word, _ in found] != words:
            return None
        return [(word, end - SILENCE_SAMPLES / RECOGNISER_RATE) for word, end in found]


def num_word_errors(wanted: list[str], heard: list[str]) -> int:
    """Substitutions, insertions and deletions between two word lists."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        above, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
    return row[-1]


def copy_synthesis(recordings: list[np.ndarray]) -> list[np.ndarray]:
    """Griffin-Lim of the recordings' own mels, as `launcher.py speak` would do it."""
    import librosa
    import tensorflow as tf

    from model_worker.vocoder.griffin_lim import waveform_of_mel

    basis = librosa.filters.mel(
        sr=mel_definition.SAMPLE_RATE,
        n_fft=mel_definition.FFT,
        n_mels=mel_definition.MEL_BINS,
        fmax=mel_definition.FMAX,
    )
    mels = [mel_definition.log_mel(audio, basis) for audio in recordings]
    copies = [np.zeros(0, np.float32)] * len(mels)
    order = sorted(range(len(mels)), key=lambda i: len(mels[i]))
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        longest = max(len(mels[i]) for i in rows)
        floor = np.log(mel_definition.LOG_FLOOR)
        batch = np.full((len(rows), longest, mel_definition.MEL_BINS), floor, np.float32)
        for place, i in enumerate(rows):
            batch[place, : len(mels[i])] = mels[i]
        waves = waveform_of_mel(tf.constant(batch), basis).numpy()
        for place, i in enumerate(rows):
            copies[i] = waves[place, : len(mels[i]) * mel_definition.HOP]
    return copies


def ratio_interval(errors: np.ndarray, others: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % interval of sum(errors) / sum(others) over sentences drawn again in pairs."""
    rows = np.random.default_rng(seed).integers(0, len(errors), (DRAWS, len(errors)))
    ratios = errors[rows].sum(axis=1) / np.maximum(others[rows].sum(axis=1), 1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def score(held_out: Path, spoken: Path | None) -> dict:
    """Word error rates of recordings, copies and the spoken wavs, with the errors of each line."""
    rows = read_metadata(held_out)
    wanted = [words_of(text) for _, _, text in rows]
    recordings = [read_wav(path) for path, _, _ in rows]
    clips = {"recordings": recordings, "copy synthesis": copy_synthesis(recordings)}
    if spoken is not None:
        clips["spoken"] = [read_wav(spoken / f"{i:04d}.wav") for i in range(1, len(rows) + 1)]
    recogniser, num_words = Recogniser(), sum(map(len, wanted))
    result: dict[str, Any] = {}
    for name, audios in clips.items():
        errors = [
            num_word_errors(words, recogniser.words(audio))
            for words, audio in zip(wanted, audios, strict=True)
        ]
        result[name] = {"word_error_rate": sum(errors) / num_words, "errors": errors}
    if spoken is not None:
        spoken_errors, copies = (
            np.array(result[n]["errors"]) for n in ("spoken", "copy synthesis")
        )
        result["ratio"] = float(spoken_errors.sum() / max(copies.sum(), 1))
        result["ratio_interval"] = ratio_interval(spoken_errors, copies)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--spoken", type=Path, help="wavs 0001.wav, … of the held-out sentences")
    parser.add_argument("--json", type=Path, help="write the errors of every sentence here too")
    arguments = parser.parse_args()
    result = score(arguments.held_out, arguments.spoken)
    for name in ("recordings", "copy synthesis", "spoken"):
        if name in result:
            print(f"{name:16s} word error rate {result[name]['word_error_rate']:.3f}")
    if "ratio" in result:
        low, high = result["ratio_interval"]
        print(f"spoken / copy synthesis {result['ratio']:.3f} (95 % interval {low:.3f}–{high:.3f})")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1), "utf-8")


if __name__ == "__main__":
    main()
