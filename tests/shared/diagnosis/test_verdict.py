"""The verdict names the largest cause and advises only what the numbers speak for."""

import pytest

from shared.config.settings import Config, DataConfig, RunConfig
from shared.diagnosis.verdict import Measured, judge


def record(step=10, waited_for=None, cores_busy=0.4, **changes):
    waited_for = waited_for if waited_for is not None else {"decoding": 40.0, "features": 9.0}
    return {
        "step": step, "epoch": 0, "step_ms": 50.0, "data_wait_ms": sum(waited_for.values()) + 1,
        "queue_depth": 0, "data_gpu_busy": 0.4, "waited_for_ms": waited_for,
        "timings_ms": {"reading": 30.0, "decoding": 170.0, "features": 20.0, "readers": 2.0,
        "cores_busy": cores_busy},
    } | changes  # fmt: skip


def verdict(*records, data=None, run=None):
    config = Config(data=DataConfig(**data or {}), run=RunConfig(**run or {}))
    return judge(Measured(records), config)


def test_the_largest_cause_is_named_with_the_flag_and_value_that_would_mend_it():
    found = verdict(record())
    assert found.waiting_for == "decoding" and found.wait_share == pytest.approx(0.5)
    # 200 ms of reader time for each batch of 50 ms: four readers, and a fifth of headroom.
    assert str(found) == (
        "waiting for: decoding (40% of the time, 50% with all else); try --num-workers 5"
    )
    alone = verdict(record(waited_for={"decoding": 49.0}))
    assert str(alone).startswith("waiting for: decoding (49% of the time, 50% with all else)")
    assert str(verdict(record(waited_for={"decoding": 50.0}, data_wait_ms=50.0))).startswith(
        "waiting for: decoding (50% of the time); try"
    )


def test_a_model_that_hardly_waits_is_the_limit_itself():
    found = verdict(record(waited_for={"decoding": 1.0}))
    assert found.waiting_for == "" and found.advice == ""
    assert "the model is the limit" in str(found)


def test_waiting_without_a_cause_is_not_called_none():
    found = verdict(record(waited_for={}, data_wait_ms=50.0))
    assert str(found) == "waiting for: a cause that was not recorded (50% of the time)"


def test_nothing_measured_is_no_verdict():
    assert verdict() is None
    assert verdict(record(step=1), {"step": 20, "val_loss": 3.0}) is None  # compiling; validating
    assert verdict({"step": 5, "step_ms": "x", "waited_for_ms": 4}) is None


@pytest.mark.parametrize(
    ("waited_for", "changes", "data", "advice"),
    [
        # More decoding threads help only on cores that are free; more readers of a disk always.
        ("decoding", {"cores_busy": 0.95}, {}, ""),
        ("reading", {"cores_busy": 0.95}, {}, "--num-workers 5"),
        ("reading", {"timings_ms": {"reading": 90.0, "readers": 8.0}}, {}, ""),
        # What is computed again in every epoch could be kept.
        ("features", {"data_gpu_busy": 0.95, "epoch": 1}, {"cache": "off"}, "--cache memory"),
        ("features", {"data_gpu_busy": 0.95, "epoch": 0}, {"cache": "off"}, ""),
        ("features", {"data_gpu_busy": 0.95, "epoch": 1}, {}, ""),
        ("features", {"data_gpu_busy": 0.5}, {}, "--data-workers 2"),
        ("features", {"data_gpu_busy": 0.5, "cores_busy": 0.9}, {}, ""),
        # Too few tickets to keep a data process at work.
        ("transport", {}, {"pipeline_buffer_size": 2}, "--buffer-size 8"),
        ("transport", {}, {}, ""),
        ("device_copy", {}, {}, ""),
        ("compiling", {}, {}, ""),
        ("absent", {}, {}, ""),
    ],
)  # fmt: skip
def test_advice_is_given_where_the_measurements_support_it(waited_for, changes, data, advice):
    found = verdict(record(waited_for={waited_for: 40.0}, **changes), data=data)
    assert (found.waiting_for, found.advice) == (waited_for, advice)


def test_a_longer_queue_where_it_is_empty_and_full_in_turn():
    empty = {"waited_for": {"features": 40.0}, "data_gpu_busy": 0.95}
    full = {"waited_for": {}, "queue_depth": 48, "data_gpu_busy": 0.95}
    assert verdict(record(10, **full), record(20, **empty), record(30, **empty)).advice == ""
    # It waited in the first epoch; since then everything comes out of the cache.
    assert verdict(record(10, **empty), record(20, **empty), record(30, **full)).advice == ""
    found = verdict(record(10, **empty), record(20, **full), record(30, **empty))
    assert (found.waiting_for, found.advice) == ("features", "--buffer-size 100")


def test_long_stretches_count_more_than_short_ones():
    measured = Measured([record(step=10), record(step=11, waited_for={"features": 90.0}),
                         record(step=31, waited_for={"decoding": 40.0})])  # fmt: skip
    assert measured.waited_for("features") == pytest.approx((9 + 90) / 22)
    assert measured.explained == pytest.approx(1 - 22 / (50 + 91 + 41 * 20))


def test_the_shares_of_a_wait_add_up_in_words():
    words = str(Measured([record(waited_for={"decoding": 60.0, "device_copy": 20.0})]))
    assert words == "81.0 ms a batch: decoding 74% · device copy 25% · unknown 1%"
