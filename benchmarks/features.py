"""Log mel, energy and pitch on one core: Tandem's graphs beside its peers, in one run.

    python benchmarks/features.py [--num-sentences 6] [--repeats 5]

Speech is made on the spot, by flite where it is installed (four voices) and by espeak-ng otherwise.
Times are processor seconds of one pinned core; all get the unpadded clips and pay for their own
padding. Figures are seconds of speech per second (× real time). Pitch is compared with librosa's
pYIN on frames with the same centres; `resampled` begins with the clips at 44,100 Hz.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mel_peers
import results
import workload  # noqa: F401 - puts the project on the path
from results import Line, ratios

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
    parser = results.parser_of(__doc__, repeats=5)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--num-sentences", type=int, default=6, choices=range(1, 9))
    options = parser.parse_args()
    # Before numpy and TensorFlow count the cores.
    os.sched_setaffinity(0, {options.core})
    os.environ.update(
        CUDA_VISIBLE_DEVICES="", NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
    )  # fmt: skip

    import librosa
    import numpy as np
    import soxr

    from data_worker.speech.features import FeatureExtractor
    from data_worker.speech.padded_rows import fill_row, pad_length

    source, clips = make_clips(SENTENCES[: options.num_sentences])
    clips = sorted(clips, key=len)
    audio_s = sum(len(clip) for clip in clips) / 22_050
    basis = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
    extractor = FeatureExtractor(basis)

    def in_batches(compute: Callable, clips: list = clips) -> list:
        """`compute` on batches of clips of similar length; per clip what it returned."""
        made = []
        for start in range(0, len(clips), BATCH_ROWS):
            batch = clips[start : start + BATCH_ROWS]
            lengths = np.array([len(clip) // 256 for clip in batch], np.int32)
            rows = np.empty((len(batch), pad_length(int(lengths.max()))), np.float32)
            for row, clip in zip(rows, batch, strict=True):
                fill_row(row, clip)
            values = [np.asarray(value) for value in compute(rows, lengths)]
            made += [[v[k, :n] for v in values] for k, n in enumerate(lengths)]
        return made

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

    def resampled(audio: list) -> list:
        return [soxr.resample(clip, 44_100, 22_050).astype(np.float32) for clip in audio]

    repeats, missing, errors = options.repeats, {}, {}
    exact: list[np.ndarray] = []
    speed = {
        "Tandem": speeds(lambda: in_batches(lambda *batch: [extractor.mel(*batch)]), repeats)[0],
        "librosa.feature.melspectrogram": speeds(melspectrograms, repeats)[0],
    }
    for peer, make in mel_peers.CLIP_PEERS.items():
        if why := mel_peers.why_not(peer):
            missing[peer] = why
            continue
        mel_of = make(basis)
        speed[peer], mels = speeds(lambda mel_of=mel_of: [mel_of(clip) for clip in clips], repeats)
        exact = exact or mels
        errors[peer] = largest_difference(mels, exact)
    if why := mel_peers.why_not("DALI"):
        missing["DALI"] = why
    else:
        batches = mel_peers.dali_batches(len(clips), clips=clips)
        speed["DALI"] = speeds(lambda: next(batches), repeats)[0]

    def of_tandem(*batch) -> tuple:
        columns = extractor(*batch)
        return columns[:, :, :80], columns[:, :, 80], columns[:, :, 81]

    whole, features = speeds(lambda: in_batches(of_tandem), repeats)
    high = [soxr.resample(clip, 22_050, 44_100) for clip in clips]
    ours_44 = speeds(lambda: in_batches(of_tandem, resampled(high)), repeats)[0]
    librosa_mel = mel_peers.of_librosa(basis)
    librosa_44 = speeds(lambda: [librosa_mel(clip) for clip in by_librosa(high)], repeats)[0]
    librosa.pyin(clips[0][:22_050], fmin=60, fmax=500, sr=22_050)  # numba compiles once
    pyin_speed, pitches = speeds(pyin, 1, warm=False)

    lines = [Line("clips", [float(len(clips))], f"({audio_s:.0f} s of speech by {source})")]
    lines += [
        Line(f"log mel: {name}", [audio_s * v for v in values], "× real time")
        for name, values in speed.items()
    ]
    lines += [Line(f"log mel: {name}", [], note=why) for name, why in missing.items()]
    for name, values in speed.items():
        if name != "Tandem":
            goal = 1.4 if "librosa" in name else None
            found = ratios(speed["Tandem"], values)
            lines.append(Line(f"log mel: Tandem / {name}", found, "×", least=goal))
    pyin_values = pyin_speed * repeats
    lines += [
        Line("mel, energy and F0: Tandem", [audio_s * v for v in whole], "× real time"),
        Line("F0: librosa.pyin", [audio_s * v for v in pyin_speed], "× real time"),
        Line("mel, energy and F0: Tandem / F0 alone: pyin", ratios(whole, pyin_values), "×", 50.0),
        Line("resampled, all three: Tandem / mel alone: librosa", ratios(ours_44, librosa_44), "×"),
    ]
    errors = {"Tandem": largest_difference([mel for mel, _, _ in features], exact)} | errors
    lines += [
        Line(f"log mel: {name}, largest difference from librosa's", [error], most=1e-3)
        for name, error in errors.items()
        if name != "librosa"
    ]
    lines += agreement(features, pitches)
    results.finish(options, lines)


def largest_difference(mels: list, wanted: list) -> float:
    return max(float(abs(one - other).max()) for one, other in zip(mels, wanted, strict=True))


def agreement(features: list, pitches: list) -> list[Line]:
    """How far Tandem's pitch is from librosa's pYIN."""
    import numpy as np

    found = np.concatenate([pitch for _, _, pitch in features])
    expected = np.concatenate([pitch for pitch, _ in pitches])
    voiced = np.concatenate([flags for _, flags in pitches])
    agreed = voiced & (found > 0)
    cents = 1_200 * np.abs(np.log2(found[agreed] / expected[agreed]))
    f1 = 2 * agreed.sum() / (voiced.sum() + (found > 0).sum())
    return [
        Line("F0: median difference from pyin", [float(np.median(cents))], "cents", most=25),
        Line("F0: octave errors against pyin", [float(np.mean(cents > 600)) * 100], "%"),
        Line("F0: voicing F1 against pyin", [float(f1)], "", least=0.9),
    ]


def by_librosa(audio: list) -> list:
    import librosa

    return [librosa.resample(clip, orig_sr=44_100, target_sr=22_050) for clip in audio]


def speeds(work: Callable, repeats: int, warm: bool = True) -> tuple[list[float], list]:
    """Runs per processor second, one for each repeat, and what the last one returned."""
    if warm:
        work()
    found = []
    for _ in range(repeats):
        started_s = time.process_time()
        result = work()
        found.append(1 / (time.process_time() - started_s))
    return found, result


def make_clips(sentences: tuple[str, ...]) -> tuple[str, list]:
    """Name of the synthesiser, and clips at 22,050 Hz with a peak of 0.95."""
    import numpy as np

    if shutil.which("flite"):
        import soundfile

        from shared.speech.utterance import load_utterance

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

    from shared.speech.text.espeak import Espeak

    clips = []
    for variant in ESPEAK_VARIANTS:
        speaker = Espeak("en-us", variant)
        for sentence in sentences:
            samples = speaker.speak(sentence).astype(np.float32)
            clips.append(samples * np.float32(0.95 / np.abs(samples).max()))
    return "espeak-ng", clips


if __name__ == "__main__":
    main()
