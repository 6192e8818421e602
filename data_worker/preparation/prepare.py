"""The whole preparation: a data set to examples, examples looked at, one index written."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from data_worker.preparation import index_cache
from data_worker.preparation.corpus_check import check_corpus
from data_worker.preparation.crash_proof_pool import CarefulPool
from data_worker.preparation.examine import (
    DataSet,
    Examined,
    Pool,
    Progress,
    examine,
    make_pool,
    refuse_unusable,
    split_of,
)
from shared.config.option import decided, paths_in
from shared.config.settings import Config
from shared.plan.index import TRAIN, Column, Index, StringColumn


def prepare(
    config: Config, out_path: str | os.PathLike, progress: Progress = lambda *_: None
) -> Index:
    """Write the index of a data set to `out_path`, from the cache if nothing has changed.

    Raises:
        DataError: no index can be made of this data set; says why and what to do. `DataRefused` if
                its examples were looked at.
    """
    data = DataSet.of(config)
    out_path = Path(out_path)
    folder = index_cache.cache_folder(out_path.resolve().parent.parent)
    key = index_cache.key_of(_cache_facts(data))
    progress(0, 0, "looking for an index of an earlier run")
    index = index_cache.look_up(folder, key, data.roots, data.side)
    is_known = index is not None
    if index is None:
        with make_pool() as pool:
            examined = examine(data, pool, progress)
            refuse_unusable(examined, config.data, data.side)
            index = build_index(data, examined, pool, progress)
        index_cache.keep(folder, key, index)
    index = dataclasses.replace(index, preparation=index.preparation | {"cached": is_known})
    index.save(out_path)
    return index


def _cache_facts(data: DataSet) -> dict:
    """All that decides the index, the files themselves apart."""
    config = data.config
    facts = {
        name: value
        for section in (config.data, config.task)
        for name, value in decided(section, "index", "look").items()
        if name not in paths_in(section)  # their content counts
    }
    return {
        "metadata": [source.digest for source in data.sources],
        "seed": config.training.seed,
        "task": data.side.same_index or [*data.task.data_identity, data.side.version],
        **facts,
    }


def build_index(data: DataSet, examined: Examined, pool: CarefulPool, progress: Progress) -> Index:
    """The index of a data set whose examples were looked at."""
    examples, seen, roots = examined.examples, examined.seen, data.roots
    split = split_of(examples, data.config)
    corpus = data.side.corpus(
        examples, [each.looked for each in seen], split == TRAIN, roots, Pool(pool, progress)
    )
    rows = len(examples)
    check_corpus(corpus, data.side, rows)
    columns: dict[str, Column] = {
        "ids": StringColumn.of(example.id for example in examples),
        "paths": StringColumn.of(example.path for example in examples),
        "root": np.fromiter((example.root for example in examples), np.uint8, rows),
        "line": np.fromiter((example.line for example in examples), np.int32, rows),
        "split": split,
        "file_size": np.fromiter((each.file_size for each in seen), np.int64, rows),
        "file_mtime_ns": np.fromiter((each.file_mtime_ns for each in seen), np.int64, rows),
    }
    survey = examined.survey
    return Index(
        columns | corpus.columns,
        corpus.tables,
        json.loads(json.dumps(corpus.facts)),  # as whoever loads the index will find them
        left_out=[
            entry._asdict() | {"stamp": index_cache.stamp(roots[entry.root], entry.path)}
            for entry in examined.left_out
        ],
        preparation={
            "format": survey.format,
            "verify": survey.verify,
            "num_rows": examined.num_rows,
            **corpus.remarks,
        },
    ).with_fingerprint()
