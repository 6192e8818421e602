"""The whole preparation: metadata to rows, rows looked at, the rest left out, one index written."""

from __future__ import annotations

import dataclasses
import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data_worker.preparation import index_cache
from data_worker.preparation.crash_proof_pool import CarefulPool, Crashed, available_cores
from data_worker.preparation.held_out import hold_out
from data_worker.speech import statistics
from data_worker.speech.audio_check.check_row import CheckSettings, Usable, check_row
from data_worker.speech.audio_check.probe import ProbeSettings, Unusable, probe
from data_worker.speech.formats import recognise as formats
from data_worker.speech.formats.rows import BAD, LeftOut, Row, leave_out
from shared.errors import DataError
from shared.plan.index import (
    TRAIN,
    TRAIN_ROOT,
    VAL_ROOT,
    VALIDATION,
    Index,
    RaggedColumn,
    StringColumn,
)
from shared.speech.text.frontend import make_frontend
from shared.speech.text.symbols import build_table, encode_corpus

Progress = Callable[[int, int, str], None]  # done, total, what

DECODE_UP_TO_HOURS = 50.0
_MAX_PROCESSES = 16
_HEADERS_SAMPLED = 100
_CHUNK_ROWS = 16


class Refused(DataError):
    """The data set can't be trained on; `left_out` names every row that is to blame."""

    def __init__(self, message: str, left_out: list[LeftOut]):
        super().__init__(message)
        self.left_out = left_out


class Examined(NamedTuple):
    """Every row of a data set, looked at."""

    rows: list[Row]  # the usable ones, in the order of the metadata
    usable: list[Usable]  # what was found in each of them
    left_out: list[LeftOut]  # by line
    num_rows: int
    format: str
    verify: str


def prepare(
    config: Any, seed: int, out_path: str | os.PathLike, progress: Progress = lambda *_: None
) -> Index:
    """Write the index of a data set to `out_path`, from the cache if nothing has changed.

    Args:
        config: a DataConfig, or anything with its fields.

    Raises:
        DataError: no index can be made of this data set; says why and what to do. `Refused` if
                its rows were looked at.
    """
    sources = _sources(config)
    roots = _roots(sources)
    out_path = Path(out_path)
    folder = index_cache.cache_folder(out_path.resolve().parent.parent)
    key = index_cache.key_of(_cache_facts(config, seed, sources))
    progress(0, 0, "looking for an index of an earlier run")
    index = index_cache.look_up(folder, key, roots)
    if index is None:
        with CarefulPool(min(available_cores(), _MAX_PROCESSES)) as pool:
            examined = examine(config, seed, progress, pool=pool, sources=sources)
            refuse_unusable(examined, config)
            index = _build_index(examined, config, seed, roots, pool, progress)
        index_cache.keep(folder, key, index)
        index = dataclasses.replace(index, preparation=index.preparation | {"cached": False})
    else:
        index = dataclasses.replace(index, preparation=index.preparation | {"cached": True})
    index.save(out_path)
    return index


def examine(
    config: Any,
    seed: int,
    progress: Progress = lambda *_: None,
    *,
    pool: CarefulPool | None = None,
    sources: list[formats.Source] | None = None,
    listen: bool = False,
) -> Examined:
    """Look at every row of a data set, and refuse nothing: what check-data shows.

    With `listen`, files that are decoded are also measured (`Found.heard`).

    Raises:
        DataError: the metadata can't be read at all.
    """
    if pool is None:
        with CarefulPool(min(available_cores(), _MAX_PROCESSES)) as own_pool:
            return examine(config, seed, progress, pool=own_pool, sources=sources, listen=listen)
    sources = sources or _sources(config)
    make_frontend(config.text_frontend, config.language)  # an unknown language ends it here
    progress(0, 0, "reading the metadata")
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    for source in sources:
        parsed = formats.parse(source)
        rows += parsed.rows
        left_out += parsed.left_out
    num_rows = len(rows) + len(left_out)
    rows = _without_duplicates(rows, left_out, _roots(sources))
    verify = _verify_mode(config, seed, rows, _roots(sources))
    settings = CheckSettings(
        _roots(sources),
        ProbeSettings(
            verify == "decode",
            config.min_seconds,
            config.max_seconds,
            config.trim_silence,
            config.trim_db,
            listen,
        ),
        config.text_frontend,
        config.language,
    )
    what = "decoding every file once" if verify == "decode" else "reading every file's header"
    progress(0, len(rows), what)
    results = pool.map(
        functools.partial(check_row, settings=settings),
        rows,
        _CHUNK_ROWS,
        lambda done: progress(done, len(rows), what),
    )
    kept, usable = [], []
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, Usable):
            kept.append(row)
            usable.append(result)
        elif isinstance(result, Crashed):
            left_out.append(leave_out(row, BAD, result.reason))
        else:
            left_out.append(result)
    left_out.sort(key=lambda entry: (entry.root, entry.metadata, entry.line))
    return Examined(kept, usable, left_out, num_rows, parsed.format, verify)


def _sources(config: Any) -> list[formats.Source]:
    train = formats.look(
        config.train_data, config.metadata_format, TRAIN_ROOT, with_held_out=not config.val_data
    )
    if not config.val_data:
        return [train]
    return [train, formats.look(config.val_data, config.metadata_format, VAL_ROOT)]


def _roots(sources: list[formats.Source]) -> tuple[str, ...]:
    return tuple(os.path.abspath(source.folder) for source in sources)


def _cache_facts(config: Any, seed: int, sources: list[formats.Source]) -> dict:
    names = (
        "metadata_format",
        "text_frontend",
        "language",
        "verify",
        "val_fraction",
        "min_seconds",
        "max_seconds",
        "trim_silence",
        "trim_db",
        "normalise_loudness",
        "max_bad_fraction",
    )
    return {
        "metadata": [formats.digest(source) for source in sources],
        "seed": seed,
        **{name: getattr(config, name) for name in names},
    }


def _without_duplicates(
    rows: list[Row], left_out: list[LeftOut], roots: tuple[str, ...]
) -> list[Row]:
    """The rows without those whose id an earlier row has; these are left out as bad."""
    homes = [os.path.realpath(root) for root in roots]
    first: dict[tuple[str, str], Row] = {}
    kept = []
    for row in rows:
        earlier = first.setdefault((homes[row.root], row.id), row)
        if earlier is row:
            kept.append(row)
        else:
            where = f"line {earlier.line}"
            if earlier.metadata != row.metadata:
                where += f" of {earlier.metadata}"
            left_out.append(leave_out(row, BAD, f"its id {row.id} is already that of {where}"))
    return kept


def _verify_mode(config: Any, seed: int, rows: list[Row], roots: tuple[str, ...]) -> str:
    """Whether files are decoded: auto estimates the hours of audio from a few headers."""
    if config.verify != "auto" or not rows:
        return "decode" if config.verify == "auto" else config.verify
    if len(rows) * config.max_seconds <= DECODE_UP_TO_HOURS * 3600:
        return "decode"
    settings = ProbeSettings(False, 0.0, 36_000.0, False, 0.0)
    seconds = []
    for row in random.Random(seed).sample(rows, min(_HEADERS_SAMPLED, len(rows))):
        try:
            found = probe(roots[row.root], row.path, settings)
        except Unusable:
            continue
        seconds.append(found.num_samples / found.sample_rate)
    hours = len(rows) * (sum(seconds) / len(seconds) if seconds else 0.0) / 3600
    return "decode" if hours <= DECODE_UP_TO_HOURS else "headers"


def refuse_unusable(examined: Examined, config: Any) -> None:
    """End the preparation if there is too little or too much of it that can't be used.

    Raises:
        Refused: says which, and the first reasons.
    """
    place = config.train_data
    bad = [entry for entry in examined.left_out if entry.kind == BAD]
    reasons = "; ".join(
        f"{entry.metadata} line {entry.line}: {entry.reason}"
        for entry in (bad or examined.left_out)[:3]
    )
    command = f"Run 'python launcher.py check-data --train-data {place}' to see every one."
    if not examined.num_rows:
        raise Refused(
            f"{place}: the metadata has no rows. Add one line per utterance, such as id|text.",
            examined.left_out,
        )
    if not examined.rows:
        raise Refused(
            f"{place}: none of its {examined.num_rows:,} rows can be used ({reasons}). {command}",
            examined.left_out,
        )
    fraction = len(bad) / examined.num_rows
    if fraction > config.max_bad_fraction:
        enough = -(-100 * len(bad) // examined.num_rows) / 100  # the next hundredth
        raise Refused(
            f"{place}: {len(bad):,} of {examined.num_rows:,} rows are bad ({fraction:.1%}, "
            f"max_bad_fraction is {config.max_bad_fraction:.1%}): {reasons}. Mend them, or allow "
            f"more with --max-bad-fraction {enough:g}. {command}",
            examined.left_out,
        )
    num_train = sum(row.split != VALIDATION for row in examined.rows)
    if config.val_data and num_train == len(examined.rows):
        raise Refused(
            f"{config.val_data}: none of its rows can be used to validate on ({reasons}). Without "
            f"--val-data a part of the training data is held out.",
            examined.left_out,
        )
    if len(examined.rows) < 2 or not num_train:
        raise Refused(
            f"{place}: only {num_train} of its {examined.num_rows:,} rows can be used for "
            f"training, and one more is needed to validate on. Add utterances. {command}",
            examined.left_out,
        )


def split_of(rows: list[Row], config: Any, seed: int) -> np.ndarray:
    """Which rows are trained on and which are held out: uint8 (rows,)."""
    split = np.array([row.split or TRAIN for row in rows], np.uint8)
    # An evaluation file of which no row can be used is as good as none.
    decided = VALIDATION in split
    undecided = [n for n, row in enumerate(rows) if row.split is None or not decided]
    if undecided and not config.val_data:
        split[undecided] = hold_out(
            [rows[number].id for number in undecided],
            [rows[number].speaker for number in undecided],
            config.val_fraction,
            seed,
        )
    return split


def _build_index(
    examined: Examined,
    config: Any,
    seed: int,
    roots: tuple[str, ...],
    pool: CarefulPool,
    progress: Progress,
) -> Index:
    rows, usable = examined.rows, examined.usable
    split = split_of(rows, config, seed)
    speakers = sorted({row.speaker for row in rows})
    number_of = {name: number for number, name in enumerate(speakers)}
    table = build_table(result.symbols for result in usable)
    values, offsets = encode_corpus([result.symbols for result in usable], table)
    basis = statistics.slaney_mel_basis()
    measured = _measure(examined, split, seed, roots, basis, config, pool, progress)
    found = [result.found for result in usable]

    def column(numbers, dtype) -> np.ndarray:
        return np.fromiter(numbers, dtype, len(rows))

    return Index(
        ids=StringColumn.of(row.id for row in rows),
        paths=StringColumn.of(row.path for row in rows),
        root=column((row.root for row in rows), np.uint8),
        line=column((row.line for row in rows), np.int32),
        split=split,
        sample_rate=column((f.sample_rate for f in found), np.int32),
        start=column((f.start for f in found), np.int64),
        num_samples=column((f.num_samples for f in found), np.int64),
        num_channels=column((f.num_channels for f in found), np.int16),
        num_frames=column((result.num_frames for result in usable), np.int32),
        speaker=column((number_of[row.speaker] for row in rows), np.int32),
        symbols=RaggedColumn(values, offsets),
        num_symbols=np.diff(offsets).astype(np.int32),
        file_size=column((f.file_size for f in found), np.int64),
        file_mtime_ns=column((f.file_mtime_ns for f in found), np.int64),
        symbol_table=table,
        speakers=speakers,
        mel_basis=basis,
        **measured._asdict(),
        text={"frontend": config.text_frontend, "language": config.language},
        left_out=[
            entry._asdict() | {"stamp": index_cache.stamp(roots[entry.root], entry.path)}
            for entry in examined.left_out
        ],
        preparation={
            "format": examined.format,
            "verify": examined.verify,
            "num_rows": examined.num_rows,
            "unspoken": sorted({c for result in usable for c in result.unspoken}),
        },
    ).with_fingerprint()


def _measure(examined, split, seed, roots, basis, config, pool, progress) -> statistics.Statistics:
    """Mel, pitch and energy of a seeded sample of the training clips."""
    train = np.flatnonzero(split == TRAIN).tolist()
    chosen = random.Random(seed).sample(train, min(statistics.SAMPLE_CLIPS, len(train)))
    clips = []
    for number in sorted(chosen):
        row, found = examined.rows[number], examined.usable[number].found
        clips.append(
            statistics.Clip(
                roots[row.root], row.path, found.start, found.num_samples, found.sample_rate
            )
        )
    what = "measuring a sample of the speech"
    task = functools.partial(
        statistics.measure, mel_basis=basis, normalise_loudness=config.normalise_loudness
    )
    progress(0, len(clips), what)
    return statistics.combine(
        pool.map(task, clips, 8, lambda done: progress(done, len(clips), what))
    )
