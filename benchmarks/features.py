"""Log mel and pitch on one core: Tandem's graphs beside librosa, speed and agreement in one run.

    python benchmarks/features.py [--core 0] [--num-sentences 6] [--repeats 5]

Speech is made on the spot, by flite where it is installed (four voices) and by espeak-ng otherwise.
Times are processor seconds of one pinned core, best of the repeats; both sides get the unpadded
clips and pay for their own padding. Pitch is compared on frames with the same centres.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SENTENCES = (
    "The harbour was quiet, and nine old boats moved slowly with the tide.",
    "Why would anyone leave a warm house on such a cold and windy evening?",
    "She laid the yellow letters on the table and read them one by one.",
    "Ten thousand people saw the match, but only a few remember who won.",
    "A good machine is patient: it listens first, and speaks when it has learnt to.",
    "In the morning we walked along the river until the road came to an end.",
    "Nobody knows how the fire began.",
    "Bring me the small red box from the upper shelf, please, and close the door.",
)
FLITE_VOICES = ("slt", "rms", "awb", "kal16")
ESPEAK_VARIANTS = ("", "f2", "m3", "f4")
BATCH_ROWS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--num-sentences", type=int, default=6, choices=range(1, 9))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    # Before numpy and TensorFlow count the cores.
    os.sched_setaffinity(0, {options.core})
    os.environ.update(
        CUDA_VISIBLE_DEVICES="", NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
    )  # fmt: skip

    import librosa
    import numpy as np

    from data_worker.audio import pad_reflect
    from data_worker.features import FeatureExtractor

    source, clips = make_clips(SENTENCES[: options.num_sentences])
    clips = sorted(clips, key=len)
    audio_s = sum(len(clip) for clip in clips) / 22_050
    basis = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
    extractor = FeatureExtractor(basis)

    def in_batches(compute: Callable) -> list:
        """`compute` on batches of clips of similar length; per clip what it returned."""
        results = []
        for start in range(0, len(clips), BATCH_ROWS):
            batch = clips[start : start + BATCH_ROWS]
            lengths = np.array([len(clip) // 256 for clip in batch], np.int32)
            rows = np.stack([pad_reflect(clip, int(lengths.max())) for clip in batch])
            values = [np.asarray(value) for value in compute(rows, lengths)]
            results += [[v[k, :n] for v in values] for k, n in enumerate(lengths)]
        return results

    def melspectrograms() -> list:
        """librosa's ready-made function; it has no 1e-9 in the magnitude and rebuilds the basis."""
        mels = []
        for clip in clips:
            mel = librosa.feature.melspectrogram(
                y=np.pad(clip, 384, mode="reflect"), sr=22_050, n_fft=1024, hop_length=256,
                center=False, power=1.0, n_mels=80, fmin=0, fmax=8_000,
            )  # fmt: skip
            mels.append(np.log(np.maximum(mel, 1e-5)).T)
        return mels

    def exact_mels() -> list:
        """The convention to the letter, with librosa's transform and a basis made once."""
        mels = []
        for clip in clips:
            padded = np.pad(clip, 384, mode="reflect")
            spectrum = librosa.stft(padded, n_fft=1024, hop_length=256, center=False)
            magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
            mels.append(np.log(np.maximum(basis @ magnitude, 1e-5)).T)
        return mels

    def pyin() -> list:
        found = []
        for clip in clips:
            frames = len(clip) // 256
            padded = np.pad(clip, (1024 - 128, 2048), mode="reflect")
            found.append(
                librosa.pyin(
                    padded[: (frames - 1) * 256 + 2048], fmin=60, fmax=500, sr=22_050,
                    frame_length=2048, hop_length=256, center=False,
                )[:2]
            )  # fmt: skip
        return found

    repeats = options.repeats
    mel_s, _ = best(lambda: in_batches(lambda *batch: [extractor.mel(*batch)]), repeats)
    all_s, features = best(lambda: in_batches(extractor), repeats)
    melspectrogram_s, _ = best(melspectrograms, repeats)
    exact_s, mels = best(exact_mels, repeats)
    librosa.pyin(clips[0][:22_050], fmin=60, fmax=500, sr=22_050)  # numba compiles once
    pyin_s, pitches = best(pyin, 1, warm=False)

    print(f"{len(clips)} clips, {audio_s:.0f} s of speech by {source}; one core; × real time\n")
    print(f"{'':44} {'Tandem':>8} {'librosa':>8} {'ratio':>7}")
    for name, ours_s, theirs_s in (
        ("log mel (librosa.feature.melspectrogram)", mel_s, melspectrogram_s),
        ("log mel (librosa.stft, basis made once)", mel_s, exact_s),
        ("F0, with mel and energy (librosa.pyin)", all_s, pyin_s),
        ("F0 alone, the spectra being there", all_s - mel_s, pyin_s),
    ):
        ours, theirs = audio_s / ours_s, audio_s / theirs_s
        print(f"{name:44} {ours:8,.0f} {theirs:8,.1f} {ours / theirs:7,.2f}")

    mel_error = max(
        np.abs(mel - exact).max() for exact, (mel, _, _) in zip(mels, features, strict=True)
    )
    found = np.concatenate([pitch for _, _, pitch in features])
    expected = np.concatenate([pitch for pitch, _ in pitches])
    voiced = np.concatenate([flags for _, flags in pitches])
    agreed = voiced & (found > 0)
    cents = 1_200 * np.abs(np.log2(found[agreed] / expected[agreed]))
    f1 = 2 * agreed.sum() / (voiced.sum() + (found > 0).sum())
    print(f"\nlog mel: largest difference on any frame {mel_error:.1e}")
    print(
        f"F0 against pYIN: median {np.median(cents):.1f} cents, {np.mean(cents > 600):.2%} octave "
        f"errors, voicing F1 {f1:.3f}"
    )


def best(work: Callable, repeats: int, warm: bool = True) -> tuple[float, list]:
    """Least processor seconds of several runs, and what the last one returned."""
    if warm:
        work()
    times_s = []
    for _ in range(repeats):
        started_s = time.process_time()
        result = work()
        times_s.append(time.process_time() - started_s)
    return min(times_s), result


def make_clips(sentences: tuple[str, ...]) -> tuple[str, list]:
    """Name of the synthesiser, and clips at 22,050 Hz with a peak of 0.95."""
    import numpy as np

    if shutil.which("flite"):
        import soundfile

        from data_worker.audio import load_utterance

        clips = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "clip.wav"
            for voice in FLITE_VOICES:
                for sentence in sentences:
                    subprocess.run(
                        ["flite", "-voice", voice, "-t", sentence, "-o", str(path)], check=True
                    )
                    info = soundfile.info(path)
                    clips.append(load_utterance(path, 0, info.frames, info.samplerate, True))
        return "flite", clips

    from shared.text.espeak import Espeak

    clips = []
    for variant in ESPEAK_VARIANTS:
        speaker = Espeak("en-us", variant)
        for sentence in sentences:
            samples = speaker.speak(sentence).astype(np.float32)
            clips.append(samples * np.float32(0.95 / np.abs(samples).max()))
    return "espeak-ng", clips


if __name__ == "__main__":
    main()
