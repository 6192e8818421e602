"""A spare: warm before it is needed, and one line away from work."""

import json
import os

import numpy as np
import pytest

from data_worker.speech.task import SpeechData
from data_worker.stream.spare import Order, wait_for_order, warm_up
from shared.config.settings import Config
from shared.plan.index import Column, Index, RaggedColumn
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.speech.index_check import STATISTICS
from shared.speech.mel import HOP
from shared.task import Companion
from shared.worker.reports import Reporter


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {"read": read, "write": write}
    yield ends
    for descriptor in ends.values():
        os.close(descriptor)


def test_the_order_is_one_line_however_it_comes(pipe, monkeypatch):
    line = json.dumps({"name": "data_worker-1", "suspects": [3, 7]}).encode() + b"\n"
    os.write(pipe["write"], line[:9])
    asked = iter([False, False, True])

    def should_stop():
        if not next(asked):
            return False
        raise AssertionError("the order was not understood")

    # The second part comes while the spare already waits.
    def report(*_, **__):
        os.write(pipe["write"], line[9:])
        monkeypatch.setattr(reporter, "progress", lambda count: None)

    reporter = Reporter(None)
    monkeypatch.setattr(reporter, "progress", report)
    assert wait_for_order(reporter, should_stop, pipe["read"]) == Order("data_worker-1", (3, 7))


def test_a_launcher_that_is_gone_has_no_orders(pipe):
    os.close(pipe.pop("write"))
    assert wait_for_order(Reporter(None), lambda: False, pipe["read"]) is None


def test_a_spare_that_is_told_to_stop_stops(pipe):
    assert wait_for_order(Reporter(None), lambda: True, pipe["read"]) is None


def index_of_speech():
    """Of no utterance."""
    nothing = np.zeros(0, np.int32)
    columns: dict[str, Column] = dict.fromkeys(
        ("start", "num_samples", "num_channels", "sample_rate", "num_frames", "num_symbols",
         "speaker"), nothing,
    )  # fmt: skip
    columns["symbols"] = RaggedColumn(np.zeros(0, np.int16), np.zeros(1, np.int64))
    facts = {"symbol_table": ["_"], "speakers": ["one"], **dict.fromkeys(STATISTICS, 1.0)}
    return Index(columns, {"mel_basis": np.ones((80, 513), np.float32)}, facts, [])


def test_after_the_warm_up_no_batch_waits_for_a_graph():
    frames = np.array([30, 31, 32, 33, 60, 61, 62, 63] * 4)
    nothing = np.zeros(len(frames), int)
    lengths = {"num_frames": frames, "num_symbols": frames // 4}
    plan = Plan(lengths, nothing, nothing, FORM, batch_size=4, seed=1, max_buckets=2)
    task = SpeechData(Config())
    task.open(index_of_speech())
    warm_up(task, plan, Reporter(None))
    built = task.num_graphs
    for number in range(plan.batches_per_epoch):
        shape = plan.shape(number)
        clip = np.zeros(shape["num_frames"] * HOP, np.float32)
        task.features([clip] * (number % shape.rows + 1), shape)
        task.companions([Companion(None, None, clip, 0.5)] * shape.rows, shape)
    assert task.num_graphs == built > 0
