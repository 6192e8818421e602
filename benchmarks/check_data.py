"""How long does check-data take for a data set of the size and the lengths of LJSpeech?

    python benchmarks/check_data.py [--clips 13100] [--folder DIR] [--repeats 1]

The clips are utterances of the demo's voices, one to five of them in a row, each time others, with
other pauses and another loudness, so that no two files and hardly two texts are the same: 1 to 10
seconds, 6.5 on average, 22,050 Hz, 16 bit, 3.8 GB together. Every one is decoded and measured, the
page with its pictures is written; nothing is known from before. The files were written just before,
so as many of them as fit are still in memory; what is read from the disk is printed beside it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import numpy as np
import results
import workload
from results import Line

RATE_HZ = 22_050
GOAL_S = 60.0
MOST_SECONDS = 10.0
NUM_UTTERANCES = 400


def make_clips(corpus: Path, folder: Path, num_clips: int) -> float:
    """Write the data set, as LJSpeech lays it out; returns its seconds of audio."""
    utterances = read_corpus(corpus)
    choice = random.Random(1)
    (folder / "wavs").mkdir(parents=True)
    lines, total_s = [], 0.0
    for number in range(num_clips):
        samples, text = one_clip(utterances, choice)
        name = f"LJ{number // 200:03d}-{number % 200:04d}"
        with wave.open(str(folder / "wavs" / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            file.writeframes(samples.tobytes())
        lines.append(f"{name}|{text}|{text}\n")
        total_s += len(samples) / RATE_HZ
    (folder / "metadata.csv").write_text("".join(lines), encoding="utf-8")
    return total_s


def read_corpus(corpus: Path) -> list[tuple[np.ndarray, str]]:
    """Every utterance of a demo corpus: int16 samples (samples,) and its text."""
    found = []
    for line in (corpus / "metadata.csv").read_text(encoding="utf-8").splitlines():
        path, _, text = line.split("|")
        with wave.open(str(corpus / path)) as file:
            found.append((np.frombuffer(file.readframes(file.getnframes()), "<i2"), text))
    return found


def one_clip(
    utterances: list[tuple[np.ndarray, str]], choice: random.Random
) -> tuple[np.ndarray, str]:
    """A few utterances in a row, to a length between 1 and MOST_SECONDS, and what they say."""
    wanted = choice.triangular(1.0, MOST_SECONDS - 1, 6.0) * RATE_HZ
    parts: list[np.ndarray] = []
    texts: list[str] = []
    length = 0
    while length < wanted:
        samples, text = choice.choice(utterances)
        pause = np.zeros(choice.randrange(1000, 5000), np.int16)
        if parts and length + len(samples) + len(pause) > MOST_SECONDS * RATE_HZ:
            break
        parts += [pause, samples]
        texts.append(text)
        length += len(samples) + len(pause)
    loudness = choice.uniform(0.3, 0.95)
    return (np.concatenate(parts) * loudness).astype("<i2"), " ".join(texts)


def check(folder: Path, place: Path) -> tuple[float, float, float]:
    """Seconds of the command, megabytes read from the disk and the share of both cores it used."""
    with tempfile.TemporaryDirectory(dir=place) as cache:
        environment = {**workload.environment(), "TANDEM_CACHE": cache}
        before, begun_s = os.times(), time.perf_counter()
        read_mb = _megabytes_read()
        done = subprocess.run(
            [sys.executable, "launcher.py", "check-data", "--train-data", str(folder), "--html",
             str(Path(cache) / "page.html")],
            cwd=workload.ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        seconds, after = time.perf_counter() - begun_s, os.times()
        if done.returncode:
            raise SystemExit(f"check-data ended with status {done.returncode}:\n{done.stdout}")
    used_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    busy = used_s / seconds / len(os.sched_getaffinity(0))
    return seconds, _megabytes_read() - read_mb, busy


def _megabytes_read() -> float:
    """What the whole machine has read from its disks since it started."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("pgpgin "):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    parser = results.parser_of(__doc__, repeats=1)
    parser.add_argument("--clips", type=int, default=13_100)
    parser.add_argument("--folder", type=Path, help="where the clips go, for a while [temporary]")
    flags = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="check-data-", dir=flags.folder) as folder:
        place = Path(folder)
        corpus = workload.make_corpus(place, NUM_UTTERANCES)
        begun_s = time.perf_counter()
        audio_s = make_clips(corpus, place / "clips", flags.clips)
        results.say(
            f"  {flags.clips:,} clips, {audio_s / 3600:.1f} hours, {audio_s / flags.clips:.2f} s "
            f"on average, made in {time.perf_counter() - begun_s:.0f} s"
        )
        for repeat in range(flags.repeats):
            found.append(check(place / "clips", place))
            results.say(f"  {repeat + 1}/{flags.repeats} {found[-1][0]:.1f} s")
    seconds, read_mb, busy = zip(*found, strict=True)
    cores = len(os.sched_getaffinity(0))
    goal = GOAL_S if flags.clips == parser.get_default("clips") else None
    results.finish(
        flags,
        [
            Line(
                f"check-data of {flags.clips:,} clips, {cores} cores", list(seconds), "s", most=goal
            ),
            Line("audio looked at", [audio_s / s for s in seconds], "× real time"),
            Line("busy share of the cores", list(busy)),
            Line("read from the disk meanwhile", list(read_mb), "MB"),
        ],
    )


if __name__ == "__main__":
    main()
