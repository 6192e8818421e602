"""An index of speech holds what speech needs, and nothing that can't be."""

import dataclasses

import numpy as np
import pytest

from shared.errors import DataError
from shared.plan.index import Index, RaggedColumn, numbers_of
from shared.speech.index_check import check_speech

LENGTHS = np.array([3, 4, 5])


def make_index(**changes) -> Index:
    """Of three utterances; a change of None leaves that part out."""
    columns = {
        "sample_rate": np.full(3, 22_050, np.int32),
        "start": np.zeros(3, np.int64),
        "num_samples": np.full(3, 44_100, np.int64),
        "num_channels": np.ones(3, np.int16),
        "num_frames": np.full(3, 172, np.int32),
        "speaker": np.zeros(3, np.int32),
        "symbols": RaggedColumn.of([np.ones(n, np.int16) for n in LENGTHS]),
        "num_symbols": LENGTHS.astype(np.int32),
    }
    tables = {"mel_basis": np.ones((80, 513), np.float32)}
    facts = {
        "symbol_table": ["_", "<s>", "</s>", " ", "ə"],
        "speakers": ["default"],
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "pitch_mean": 5.0,
        "pitch_std": 0.3,
        "energy_mean": 1.0,
        "energy_std": 1.0,
    }
    for part in (columns, tables, facts):
        part.update({name: changes[name] for name in changes if name in part})
        for name in [name for name, value in part.items() if value is None]:
            del part[name]
    return Index(columns, tables, facts, left_out=[])


def test_a_sound_one_is_taken():
    check_speech(make_index())


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"speaker": np.full(3, 1, np.int32)}, "speaker holds an impossible"),
        ({"speaker": np.full(3, -1, np.int32)}, "speaker holds an impossible"),
        ({"start": np.full(3, -1, np.int64)}, "start holds an impossible"),
        ({"num_frames": np.zeros(3, np.int32)}, "num_frames holds an impossible"),
        ({"sample_rate": np.zeros(3, np.int32)}, "sample_rate holds an impossible"),
        ({"num_symbols": np.ones(3, np.int32)}, "num_symbols does not fit"),
        ({"symbols": np.ones(3, np.int16)}, "symbols does not fit"),
        (
            {"symbols": RaggedColumn.of([np.ones(n, np.int64) for n in LENGTHS])},
            "symbols does not fit",
        ),
        ({"mel_mean": float("nan")}, "not finite"),
        ({"energy_std": "much"}, "missing or damaged"),
        ({"mel_basis": np.ones((80, 512), np.float32)}, "another shape"),
        ({"mel_basis": np.ones((80, 513), np.float64)}, "another shape"),
        ({"mel_basis": np.full((80, 513), np.inf, np.float32)}, "not finite"),
        ({"symbol_table": ["_"]}, "symbols holds an impossible"),
        ({"symbol_table": 7}, "missing or damaged"),
    ],
)
def test_one_that_contradicts_itself_is_refused_in_a_sentence(changes, message):
    with pytest.raises(DataError, match=f"{message}.*Remove the run's index"):
        check_speech(make_index(**changes))


@pytest.mark.parametrize(
    "name",
    [name for part in ("columns", "tables", "facts") for name in getattr(make_index(), part)],
)
def test_one_that_lacks_a_part_is_refused_in_a_sentence(name):
    with pytest.raises(DataError, match="a part of it is missing or damaged"):
        check_speech(make_index(**{name: None}))


def test_no_example_at_all_is_no_contradiction():
    index = make_index()
    columns: dict = {n: numbers_of(index, n)[:0] for n in index.columns if n != "symbols"}
    empty = RaggedColumn(np.zeros(0, np.int16), np.zeros(1, np.int64))
    check_speech(dataclasses.replace(index, columns={**columns, "symbols": empty}))
