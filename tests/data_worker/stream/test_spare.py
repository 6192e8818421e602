"""A spare: warm before it is needed, and one line away from work."""

import json
import os

import numpy as np
import pytest

from data_worker.speech.audio import pad_length
from data_worker.speech.features import FeatureExtractor
from data_worker.stream.spare import Order, wait_for_order, warm_up
from shared.plan.plan import Plan
from shared.speech.batch import REFERENCE_FRAMES
from shared.worker.reports import Reporter


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {"read": read, "write": write}
    yield ends
    for descriptor in ends.values():
        os.close(descriptor)


def test_the_order_is_one_line_however_it_comes(pipe):
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
        reporter.progress = lambda count: None

    reporter = Reporter(None)
    reporter.progress = report
    assert wait_for_order(reporter, should_stop, pipe["read"]) == Order("data_worker-1", (3, 7))


def test_a_launcher_that_is_gone_has_no_orders(pipe):
    os.close(pipe.pop("write"))
    assert wait_for_order(Reporter(None), lambda: False, pipe["read"]) is None


def test_a_spare_that_is_told_to_stop_stops(pipe):
    assert wait_for_order(Reporter(None), lambda: True, pipe["read"]) is None


def test_after_the_warm_up_no_batch_waits_for_a_graph():
    frames = np.array([30, 31, 32, 33, 60, 61, 62, 63] * 4)
    nothing = np.zeros(len(frames), int)
    plan = Plan(frames, frames // 4, nothing, nothing, batch_size=4, seed=1, max_buckets=2)
    extractor = FeatureExtractor(np.ones((80, 513), np.float32))
    warm_up(extractor, plan, Reporter(None))
    built = extractor.num_traces
    for number in range(plan.batches_per_epoch):
        shape = plan.shape(number)
        rows = np.zeros((shape.rows, pad_length(shape.frames)), np.float32)
        extractor(rows, np.ones(shape.rows, np.int32))
        crops = np.zeros((shape.rows, pad_length(REFERENCE_FRAMES)), np.float32)
        extractor.mel(crops, np.ones(shape.rows, np.int32))
    assert extractor.num_traces == built > 0
