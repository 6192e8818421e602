"""Everything check-data says about a data set, as plain values: {"problems": …, "summary": …}."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from data_worker.preparation.examine import DataRefused, Progress, refuse_unusable, split_of
from data_worker.speech.data_check.examined import ExaminedSpeech, examine_speech
from data_worker.speech.data_check.memory import memory_ahead
from data_worker.speech.data_check.outliers import find_outliers, texts_of_several_speakers
from data_worker.speech.data_check.suggestions import suggest
from data_worker.speech.formats.rows import BAD, FILTERED, LeftOut, Row
from shared.config.settings import Config
from shared.devices.gpus import Gpu, list_gpus
from shared.errors import GpuError
from shared.plan.index import TRAIN, VALIDATION

_MOST_BINS = 30


def look_at(
    config: Config,
    progress: Progress = lambda *_: None,
    gpu_memory: int | str | None = None,
) -> dict:
    """Look at every row of the data set as a run would.

    `gpu_memory`: megabytes of a GPU to predict the memory of steps for, or that of this machine.

    Raises:
        DataError: the metadata can't be read at all.
        TandemError: the memory of steps is to be predicted, and can't be.
    """
    examined = examine_speech(config, progress)
    files = {row.metadata for row in examined.rows}
    files |= {entry.metadata for entry in examined.left_out}
    problems = [_problem(entry, several_files=len(files) > 1) for entry in examined.left_out]
    summary = _summary(examined, config)
    if gpu_memory is not None and summary["trainable"]:
        gpu, free_mb = _gpu_of(gpu_memory, config)
        found = memory_ahead(examined, config, gpu, free_mb, progress)
        summary["memory"] = dataclasses.asdict(found)
    return {"problems": problems, "summary": summary}


def _problem(entry: LeftOut, several_files: bool) -> dict:
    reason = f"{entry.reason} (in {entry.metadata})" if several_files else entry.reason
    return {"line": entry.line, "id": entry.id, "path": entry.path, "reason": reason}


def _summary(examined: ExaminedSpeech, config: Config) -> dict:
    kinds = Counter(entry.kind for entry in examined.left_out)
    summary = {
        "data": config.data.train_data,
        "format": examined.examined.survey.format,
        "verify": examined.examined.survey.verify,
        "rows": examined.examined.num_rows,
        "usable": len(examined.rows),
        "bad": kinds[BAD],
        "filtered": kinds[FILTERED],
        **_verdict(examined, config),
        "memory": None,
    }
    if not examined.rows:
        return summary
    seconds = seconds_of(examined)
    characters = np.array([len(row.text) for row in examined.rows])
    split = split_of(examined.examined.examples, config)
    symbols = Counter(symbol for found in examined.usable for symbol in found.symbols)
    unspoken = Counter(character for found in examined.usable for character in found.unspoken)
    rates = Counter(found.found.sample_rate for found in examined.usable)
    outliers = find_outliers(examined, seconds)
    return summary | {
        "train": int((split == TRAIN).sum()),
        "validation": int((split == VALIDATION).sum()),
        "hours": round(float(seconds.sum()) / 3600, 4),
        "utterance_seconds": _five_numbers(seconds),
        "characters_per_second": _five_numbers(characters / seconds),
        "duration_histogram": _histogram(seconds),
        "characters_per_second_histogram": _histogram(characters / seconds),
        "speakers": _speakers(examined.rows, seconds),
        "sample_rates": {str(rate): count for rate, count in sorted(rates.items())},
        "symbols": [{"symbol": s, "count": n} for s, n in symbols.most_common()],
        "unspoken": [{"character": c, "rows": n} for c, n in unspoken.most_common()],
        "texts_of_several_speakers": texts_of_several_speakers(examined.rows),
        "outliers": outliers,
        "outlier_counts": dict(Counter(outlier["kind"] for outlier in outliers)),
        "suggestion": suggest(examined, split, config.data, _gpus()),
    }


def _gpu_of(gpu_memory: int | str, config: Config) -> tuple[Gpu | None, int]:
    """The GPU that steps would run on, and what of its memory is free, 0 where nobody says."""
    wanted = config.data.model_gpus[0] if config.data.model_gpus else 0
    gpu = next((gpu for gpu in _gpus() if gpu.index == wanted), None)
    if isinstance(gpu_memory, int):
        return gpu, gpu_memory
    return gpu, gpu.memory_mb - gpu.used_mb if gpu else 0


def _gpus() -> list[Gpu]:
    """Those to suggest sizes for; the data can be looked at where the driver can't."""
    try:
        return [gpu for gpu in list_gpus(0) if not gpu.problem]
    except GpuError:
        return []


def _verdict(examined: ExaminedSpeech, config: Config) -> dict:
    """Whether a run would take the data set, and if not, in its own words."""
    refusal, trainable = None, True
    try:
        refuse_unusable(examined.examined, config.data, examined.side)
    except DataRefused as error:
        refusal = error.found  # where to see every row is no news to who is looking at them
        try:
            lenient = dataclasses.replace(config.data, max_bad_fraction=1.0)
            refuse_unusable(examined.examined, lenient, examined.side)
        except DataRefused:
            trainable = False
    return {"trainable": trainable, "refusal": refusal}


def seconds_of(examined: ExaminedSpeech) -> np.ndarray:
    """Length of what is trained on of each usable row: float64 (rows,)."""
    return np.array([u.found.num_samples / u.found.sample_rate for u in examined.usable])


def _five_numbers(values: np.ndarray) -> dict:
    names = ("min", "p5", "median", "p95", "max")
    found = np.percentile(values, [0, 5, 50, 95, 100])
    return {name: round(float(value), 3) for name, value in zip(names, found, strict=True)}


def _histogram(values: np.ndarray) -> dict:
    """Counts between round edges, at most 30 of them; the last bin holds a long tail's rest."""
    low, high = float(values.min()), float(np.percentile(values, 99.5))
    width = _round_width((max(high, low + 1e-3) - low) / _MOST_BINS * 1.5)
    first = np.floor(low / width)
    num_bins = max(1, int(np.ceil(high / width - first)))
    edges = (first + np.arange(num_bins + 1)) * width
    counts, _ = np.histogram(np.minimum(values, edges[-1]), edges)
    return {
        "edges": [round(float(edge), 4) for edge in edges],
        "counts": counts.tolist(),
        "last_is_open": bool(values.max() > edges[-1]),
    }


def _round_width(width: float) -> float:
    """The next larger of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(power * step for step in (1, 2, 5, 10) if power * step >= width))


def _speakers(rows: list[Row], seconds: np.ndarray) -> list[dict]:
    """Each speaker's share, the one with the most first."""
    counts: Counter[str] = Counter(row.speaker for row in rows)
    total_s: Counter[str] = Counter()
    for row, each_s in zip(rows, seconds.tolist(), strict=True):
        total_s[row.speaker] += each_s
    return [
        {"name": name, "utterances": counts[name], "hours": round(each_s / 3600, 4)}
        for name, each_s in total_s.most_common()
    ]
