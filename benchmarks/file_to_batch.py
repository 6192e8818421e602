"""From files on disk to a finished batch of log mels, on one core: Tandem and its peers.

    python benchmarks/file_to_batch.py [--repeats 3] [--seconds 2]

Folders of the same speech as wav (16 bit, 22,050 Hz), flac (22,050 Hz), and flac at 44,100 Hz,
which is to be resampled. A batch is 16 clips, decoded, as log mels, padded to the longest; the
figure is seconds of speech per second of processor time. Peers decode with soundfile and resample
with soxr (librosa does the same by itself), DALI with its own decoder. `Tandem, whole batch` is
what a data process really makes: energy and pitch too, and a mel of another clip of the speaker.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
from pathlib import Path

import mel_peers
import numpy as np
import results
import workload
from quiet_windows import rate_per_cpu_second
from results import Line, ratios

from shared.plan.index import Index

FORMATS = ("wav", "flac", "flac 44.1 kHz")
PEERS = ("librosa", "scipy", "torch", "torch, double", "DALI")
CONTENDERS = ("Tandem", "Tandem, whole batch", *PEERS)
NUM_CLIPS = 160


def write_folder(corpus: Path, name: str) -> None:
    """The corpus once more, in another format, beside it."""
    import soundfile
    import soxr

    folder = corpus.with_name(name.replace(" ", "-"))
    (folder / "wavs").mkdir(parents=True)
    text = (corpus / "metadata.csv").read_text()
    suffix = name.split()[0]
    for path in sorted((corpus / "wavs").iterdir()):
        audio, rate = soundfile.read(path, dtype="float32")
        if "44.1" in name:
            audio, rate = soxr.resample(audio, rate, 44_100), 44_100
        soundfile.write(folder / "wavs" / f"{path.stem}.{suffix}", audio, rate, "PCM_16")
    (folder / "metadata.csv").write_text(text.replace(".wav", f".{suffix}"))


def padded(mels: list[np.ndarray]) -> np.ndarray:
    batch = np.full((len(mels), max(map(len, mels)), 80), np.log(1e-5), np.float32)
    for row, mel in zip(batch, mels, strict=True):
        row[: len(mel)] = mel
    return batch


def batches_of(contender: str, folder: Path, run: Path):
    """Batches without end."""
    files = sorted(map(str, (folder / "wavs").iterdir()))
    if contender == "DALI":
        yield from mel_peers.dali_batches(workload.BATCH_SIZE, files=files)
    if contender == "Tandem, whole batch":
        workload.start_tensorflow({workload.data_core()})
        yield from workload.DataParts(run).stream()
    if contender == "Tandem":
        workload.start_tensorflow({workload.data_core()})
        yield from tandem_mels(workload.DataParts(run))
    size = workload.BATCH_SIZE
    groups = itertools.cycle([files[at : at + size] for at in range(0, len(files), size)])
    import librosa
    import soundfile
    import soxr

    mel = mel_peers.CLIP_PEERS[contender](Index.load(run / "index.safetensors").mel_basis)

    def load(path: str) -> np.ndarray:
        if contender == "librosa":
            return librosa.load(path, sr=22_050)[0]
        audio, rate = soundfile.read(path, dtype="float32")
        return audio if rate == 22_050 else soxr.resample(audio, rate, 22_050)

    for group in groups:
        yield padded([mel(load(path)) for path in group])


def tandem_mels(data: workload.DataParts):
    """The readers and the mel graph of a data process, without the rest of its batch."""
    from data_worker.batches.readers import ReaderPool
    from data_worker.batches.reading import make_loader
    from data_worker.speech.features import FeatureExtractor
    from data_worker.speech.padded_rows import RowSpace, fill_row
    from data_worker.speech.task import SpeechData
    from shared.plan.plan_of_run import example_of_row

    extractor = FeatureExtractor(data.index.mel_basis)
    space = RowSpace()
    example_of = example_of_row(data.config, data.index)
    readers = ReaderPool(make_loader(SpeechData(data.config), example_of, {}), 2)
    rows = itertools.cycle(range(NUM_CLIPS))
    waiting = [[readers.read(next(rows)) for _ in range(workload.BATCH_SIZE)] for _ in range(2)]
    frames = data.plan.batch(0).shape["num_frames"]
    while True:
        waiting.append([readers.read(next(rows)) for _ in range(workload.BATCH_SIZE)])
        clips = [future.result().raw for future in waiting.pop(0)]
        lengths = np.array([len(clip) // 256 for clip in clips], np.int32)
        padded_rows = space.rows(len(clips), frames)
        for row, clip in zip(padded_rows, clips, strict=True):
            fill_row(row, clip)
        yield extractor.mel(padded_rows, lengths)


def measure(contender: str, folder: Path, run: Path, seconds: float) -> float:
    """Batches per second of processor time."""
    os.sched_setaffinity(0, {workload.data_core()})
    batches = batches_of(contender, folder, run)
    return rate_per_cpu_second(lambda: next(batches), seconds, warm_up=12)


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--kind", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind:
        run = flags.folder.with_name(f"run-{flags.folder.name}")
        rate = measure(flags.kind, flags.folder, run, flags.seconds)
        print(json.dumps({"rate": rate}), flush=True)
        workload.leave()
    import soundfile

    missing = {peer: why for peer in PEERS if (why := mel_peers.why_not(peer))}
    rates: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="files-") as place:
        corpus = workload.make_corpus(Path(place), NUM_CLIPS)
        clip_s = [soundfile.info(path).duration for path in (corpus / "wavs").iterdir()]
        batch_s = workload.BATCH_SIZE * float(np.mean(clip_s))
        for name in FORMATS:
            write_folder(corpus, name)
            folder = corpus.with_name(name.replace(" ", "-"))
            # Peers keep the silence, so Tandem does here too: the same seconds of speech for all.
            workload.prepare(folder, folder.with_name(f"run-{folder.name}"), "--no-trim-silence")
            for repeat in range(flags.repeats):
                for contender in [c for c in CONTENDERS if c not in missing]:
                    common = ("--folder", str(folder), "--seconds", str(flags.seconds))
                    found = workload.child(__file__, "--kind", contender, *common)
                    if "failed" in found:
                        missing[contender] = found["failed"]
                        continue
                    rates.setdefault((name, contender), []).append(found["rate"] * batch_s)
                    times = found["rate"] * batch_s
                    results.say(f"  {repeat + 1}/{flags.repeats} {name} {contender} {times:.0f} ×")
    lines = []
    for name in FORMATS:
        ours = rates[name, "Tandem"]
        for contender in CONTENDERS:
            if contender in missing:
                lines.append(Line(f"{name}: {contender}", [], note=missing[contender]))
                continue
            theirs = rates[name, contender]
            lines.append(Line(f"{name}: {contender}", theirs, "s of speech/s"))
            if contender in PEERS:
                ratio = ratios(ours, theirs)
                lines.append(Line(f"{name}: Tandem / {contender}", ratio, "×", least=1.0))
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
