"""What does a vocoder cost in sound? Train one through the launcher, and copy held-out recordings with it.

    python benchmarks/vocoder.py --minutes 3
    python benchmarks/vocoder.py --data my-voice --minutes 60

`--data` is a folder with metadata.csv (`name|text`) and wavs/; without it a corpus is spoken by flite. Of the
recordings 40 are held out, never trained on, and each is copied from its own mel by Griffin-Lim and by the
vocoder. Scored beside the recordings themselves: PESQ (wide band, against the recording), DNSMOS (speechmos)
and distillMOS, with 95 % intervals over clips drawn again, those of differences in pairs; word errors where
flite spoke English; and how long a second of speech takes. With `--voice RUN` the held-out texts are spoken by
that voice through both, and scored too. A scorer that is not installed is named.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soxr
from voice_corpus import make_corpus
from voice_score import (
    DRAWS,
    Recogniser,
    num_word_errors,
    ratio_interval,
    read_metadata,
    read_wav,
    words_of,
)

ROOT = Path(__file__).resolve().parent.parent
SCORED_HZ = 16_000
HELD_OUT = 40
# Of the budget, for what comes after the last step: samples, report, the launcher's own end.
_END_S = 6.0
Scorer = Callable[[np.ndarray, np.ndarray], float]  # recording, what was made of it; 16 kHz


def split(data: Path, out: Path, num_held_out: int) -> tuple[Path, list[Path], list[str]]:
    """The folder to train on, without the held-out recordings; those, and their texts."""
    lines = [line for line in (data / "metadata.csv").read_text("utf-8").splitlines() if line]
    random.Random(0).shuffle(lines)
    found = []
    for part, chosen in (("held_out", lines[:num_held_out]), ("train", lines[num_held_out:])):
        wavs = out / part / "wavs"
        wavs.mkdir(parents=True, exist_ok=True)
        for line in chosen:
            (path,) = (data / "wavs").glob(Path(line.split("|")[0]).stem + ".*")
            if not (wavs / path.name).exists():
                shutil.copy(path, wavs)
            if part == "held_out":
                found.append(wavs / path.name)
        (out / part / "metadata.csv").write_text("\n".join(chosen) + "\n", "utf-8")
    return out / "train", found, [line.split("|")[1] for line in lines[:num_held_out]]


def train(data: Path, run: Path, minutes: float, flags: list[str]) -> tuple[float, float]:
    """One command, as a user would give it; its wall clock and the seconds of cores it took."""
    started_s, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            sys.executable, "launcher.py", "--task", "vocoder", "--train-data", str(data),
            "--run-dir", str(run), "--model-size", "tiny", "--batch-size", "16", "--no-live",
            "--max-minutes", f"{minutes - _END_S / 60:.3f}", *flags,
        ],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started_s, cores_s


def copies(run: Path, recordings: list[np.ndarray]) -> dict[str, tuple[list[np.ndarray], float]]:
    """What both make of the recordings' mels, and the seconds that a second of speech took."""
    sys.path.insert(0, str(ROOT))
    from model_worker.vocoder.griffin_lim import GriffinLim
    from model_worker.vocoder.speaking import TrainedVocoder, load_generator
    from model_worker.vocoder.trained_run import trained_run
    from shared.speech.mel import SAMPLE_RATE, log_mel

    known = trained_run(run, print)
    basis = known.index.mel_basis
    mels = [log_mel(audio, basis) for audio in recordings]
    seconds = sum(map(len, recordings)) / SAMPLE_RATE
    found = {}
    for vocoder in (GriffinLim(basis), TrainedVocoder(load_generator(known))):
        vocoder(mels[0])  # builds the graph
        started_s = time.perf_counter()
        made = [vocoder(mel) for mel in mels]
        found[vocoder.name] = made, (time.perf_counter() - started_s) / seconds
    return found


def scorers() -> dict[str, Scorer]:
    """Those that are installed."""
    found: dict[str, Scorer] = {}
    try:
        from pesq import pesq

        found["PESQ"] = lambda true, made: pesq(SCORED_HZ, true, made, "wb")
    except ImportError:
        print("PESQ: not measured, pesq is not installed")
    try:
        from speechmos import dnsmos

        found["DNSMOS"] = lambda _, made: dnsmos.run(np.clip(made, -1, 1), SCORED_HZ)["ovrl_mos"]
    except ImportError:
        print("DNSMOS: not measured, speechmos is not installed")
    try:
        # Only its command line needs this one, whose versions seldom fit that of torch.
        sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))
        import distillmos
        import torch

        judge = distillmos.ConvTransformerSQAModel().eval()

        def distilled(_: np.ndarray, made: np.ndarray) -> float:
            with torch.no_grad():
                return float(judge(torch.from_numpy(made)[None]))

        found["distillMOS"] = distilled
    except ImportError:
        print("distillMOS: not measured, distillmos or torch is not installed")
    return found


def interval(values: np.ndarray) -> str:
    """The mean and its 95 % interval over clips drawn again."""
    rows = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.percentile(values[rows].mean(axis=1), [2.5, 97.5])
    return f"{values.mean():+.2f} [{low:+.2f}, {high:+.2f}]"


def spoken(voice: Path, run: Path, texts: list[str], out: Path) -> dict[str, list[np.ndarray]]:
    """The texts as a voice says them, through both."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    found = {}
    for name, vocoder in (("Griffin-Lim", "griffin-lim"), ("vocoder", str(run))):
        subprocess.run(
            [
                sys.executable, "launcher.py", "speak", "--run", str(voice), "--vocoder", vocoder,
                "--text-file", str(out / "texts.txt"), "--out-dir", str(out / name),
            ],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        found[name] = [read_wav(out / name / f"{i:04d}.wav") for i in range(1, len(texts) + 1)]
    return found


def compare(clips: dict[str, list[np.ndarray]], judges: dict[str, Scorer]) -> None:
    """Print what each scorer says of the recordings and of both vocoders."""
    heard = {
        name: [soxr.resample(audio, 22_050, SCORED_HZ) for audio in audios]
        for name, audios in clips.items()
    }
    for title, judge in judges.items():
        values = {
            name: np.array([
                judge(true[: len(audio)], audio[: len(true)] if title == "PESQ" else audio)
                for true, audio in zip(heard["recordings"], audios, strict=True)
            ])
            for name, audios in heard.items()
        }  # fmt: skip
        shown = ", ".join(f"{name} {each.mean():.2f}" for name, each in values.items())
        ahead = interval(values["vocoder"] - values["Griffin-Lim"])
        behind = interval(values["vocoder"] - values["recordings"])
        print(f"{title}: {shown}; vocoder - Griffin-Lim {ahead}, - recordings {behind}", flush=True)


def compare_words(clips: dict[str, list[np.ndarray]], texts: list[str]) -> None:
    """Print how many words a recogniser of English gets wrong."""
    recogniser, wanted = Recogniser(), [words_of(text) for text in texts]
    errors = {
        name: np.array([
            num_word_errors(words, recogniser.words(audio))
            for words, audio in zip(wanted, audios, strict=True)
        ])
        for name, audios in clips.items()
    }  # fmt: skip
    count = sum(map(len, wanted))
    shown = ", ".join(f"{name} {each.sum() / count:.3f}" for name, each in errors.items())
    low, high = ratio_interval(errors["vocoder"], errors["Griffin-Lim"])
    ratio = errors["vocoder"].sum() / max(1, errors["Griffin-Lim"].sum())
    print(f"word errors: {shown}; vocoder / Griffin-Lim {ratio:.3f} [{low:.3f}, {high:.3f}]")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="real recordings (default: flite speaks some)")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--flite", default="rms", help="voice of flite")
    parser.add_argument("--run", type=Path, help="a run that is there already, instead of training")
    parser.add_argument(
        "--voice", type=Path, help="a run of speech to speak the held-out texts with"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "vocoder")
    parser.add_argument("--train-flags", nargs=argparse.REMAINDER, default=[])
    flags = parser.parse_args()
    if flags.data:
        place = flags.work / flags.data.resolve().name
        data, paths, texts = split(flags.data, place, HELD_OUT)
    else:
        place = flags.work / f"corpus-{flags.flite}"
        if not (place / "train" / "metadata.csv").exists():
            make_corpus(place, [flags.flite])
        rows = read_metadata(place / "held_out")[:HELD_OUT]
        data, paths, texts = place / "train", [row[0] for row in rows], [row[2] for row in rows]
    run = flags.run or flags.work / f"run-{place.name}-{time.strftime('%H%M%S')}"
    if not flags.run:
        wall_s, cores_s = train(data, run, flags.minutes, flags.train_flags)
        print(f"trained for {wall_s:.0f} s, which took {cores_s:.0f} s of one core", flush=True)
    recordings = [read_wav(path) for path in paths]
    made = copies(run, recordings)
    for name, (_, factor) in made.items():
        print(f"{name}: real-time factor {factor:.4f}")
    clips = {"recordings": recordings, **{name: copied for name, (copied, _) in made.items()}}
    judges = scorers()
    print(f"copy synthesis of {len(paths)} held-out recordings:")
    compare(clips, judges)
    if not flags.data:
        compare_words(clips, texts)
    if flags.voice:
        clips = {"recordings": recordings, **spoken(flags.voice, run, texts, run / "spoken")}
        judges.pop("PESQ", None)  # it hears nothing but how near to the recording a copy is
        print("the same sentences, spoken from their texts:")
        compare(clips, judges)
        if not flags.data:
            compare_words(clips, texts)


if __name__ == "__main__":
    main()
