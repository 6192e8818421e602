"""What `bench` makes of its measurements; the measuring itself is in tests/processes."""

import pytest

from shared.commands.bench.command import _placements, read_flags
from shared.commands.bench.runs import BenchRun, StepWatch
from shared.config.settings import Config, DataConfig
from shared.config.variables import FAKE_GPUS_VARIABLE
from shared.console.bench_view import picture_of, table_of
from shared.devices.gpus import Gpu, choose_gpus
from shared.diagnosis.bench_advice import advise, batches_to_cover, limit_of
from shared.diagnosis.pace import PaceMeter
from shared.errors import ConfigError, GpuError, InputError, TandemError
from shared.worker.reports import Busy, Metrics, Outlook


@pytest.fixture(autouse=True)
def no_fake_gpus(monkeypatch):
    monkeypatch.delenv(FAKE_GPUS_VARIABLE, raising=False)


def test_the_pace_is_counted_after_the_warm_up_and_between_beats():
    now_s = [0.0]
    meter = PaceMeter(6.0, "s of audio", lambda: now_s[0])
    for at_s in (10.0, 10.4, 11.0):  # a second of warm-up; the last beat begins the measurement
        now_s[0] = at_s
        meter.note(100.0)
    meter.note_busy(0.5)
    for at_s in (12.0, 15.0, 16.9):
        now_s[0] = at_s
        meter.note(2.0)
        assert not meter.is_over
    now_s[0] = 17.0
    meter.note(3.0)
    assert meter.is_over
    assert meter.pace() == {
        "batches_per_s": 4 / 6, "amount_per_s": 9 / 6, "seconds": 6.0,
        "longest_gap_s": 3.0, "unit": "s of audio", "model_gpu_busy": [0.5],
    }  # fmt: skip


def test_a_measurement_without_a_batch_has_no_pace():
    meter = PaceMeter(6.0, "s of audio")
    meter.note(1.0)
    assert meter.pace()["batches_per_s"] == 0.0


def test_what_could_not_be_measured_is_called_as_bench_calls_it(tmp_path):
    class Unmeasured(BenchRun):
        def _run(self, make, watch=None):
            """Ends before any pace is known."""

    config = Config(data=DataConfig(train_data=str(tmp_path)))
    bench_run = Unmeasured(config, choose_gpus(config.data, []), tmp_path / "run")
    said = "5 s were too short to measure batches alone, steps alone. Give more with --seconds."
    with pytest.raises(TandemError, match=said):
        bench_run.parts(("data", "model"), 5, lambda part, pace: None)


def record(time, step, depth, wait_ms=0.0):
    found = {
        "time": time, "step": step, "queue_depth": depth, "step_ms": 100.0, "unit": "s of audio",
        "data_wait_ms": wait_ms, "amount_per_s": 20.0, "model_gpu_busy": [0.9],
    }  # fmt: skip
    return Metrics(found, Outlook(0.5, 60.0, 100, False, 60.0, 2.0, "", False))


def test_a_run_is_measured_from_its_warm_up_to_its_time():
    watch = StepWatch(6.0, warm_up_batches=10)
    assert not watch.take(Metrics({"time": 0.0, "step": 1, "val_loss": 2.0}))
    assert not watch.take(Busy(1.0))
    for report in (record(1, 1, 50), record(1.5, 5, 50), record(2, 6, 50), record(3, 20, 50)):
        assert not watch.take(report)
    assert not watch.take(record(6, 50, 50))
    assert watch.take(record(9, 80, 50)) and watch.is_over
    assert not watch.take(record(12, 110, 50))  # what comes while it stops does not count
    pace = watch.pace()
    assert pace["batches_per_s"] == pytest.approx(10)
    assert pace["amount_per_s"] == pytest.approx(20)
    assert pace["waited_fraction"] == 0 and pace["model_gpu_busy"] == [0.9, 0.9]


def test_batches_that_only_emptied_the_queue_do_not_count():
    watch = StepWatch(6.0, warm_up_batches=1)
    for report in (record(0, 1, 50), record(1, 10, 50), record(7, 70, 20, wait_ms=0.0)):
        watch.take(report)
    assert watch.pace()["batches_per_s"] == pytest.approx(30 / 6)
    assert watch.pace()["amount_per_s"] == pytest.approx(20 * 30 / 60)


def side(rate, batches_per_s=10.0, gap_s=0.2):
    return {"amount_per_s": rate, "batches_per_s": batches_per_s, "longest_gap_s": gap_s}


def found(single, multi=None, data=300.0, model=200.0, **other):
    limits = {"single": {"data": side(data), "model": side(model)}}
    modes = [
        {"mode": "sequential", "limit": "single", "flags": [], **side(80.0)},
        {"mode": "single-GPU buffered", "limit": "single", "flags": [], **side(single)},
    ]
    if multi is not None:
        limits["multi"] = {"data": side(data), "model": side(model)}
        flags = ["--data-gpu", "0", "--model-gpu", "1"]
        modes.append({"mode": "multi-GPU", "limit": "multi", "flags": flags, **side(multi)})
    for mode in modes:
        mode.update(share_of_limit=0.5, model_gpu_busy=[0.9, 1.0, 1.0, 1.0, 1.0, 1.0])
    return {
        "modes": modes, "limits": limits, "no_multi_gpu": "it needs two GPUs, found 1",
        "buffer_size": 50, "epoch_megabytes": 313, "cache_megabytes": 2048, "fake_gpus": 0,
        "memory_megabytes": 16_000, "examples": 400, "noun": "clips", "details": "3.0 h", "task": "speech", "model_size": "small",
        "batch_size": 32, "unit": "s of audio", "cores": 8, "gpus": ["A", "B"], "cache": "off", **other,
    }  # fmt: skip


def test_the_limit_is_the_slower_side():
    assert limit_of({"data": side(300.0), "model": side(200.0)}) == 200.0


def test_two_gpus_are_advised_when_they_are_faster():
    advice = advise(found(100.0, 190.0))
    assert advice["flags"] == ["--data-gpu", "0", "--model-gpu", "1"]
    assert "90 % faster" in advice["why"][0] and "model is the limit" in advice["why"][1]


def test_a_second_gpu_that_brings_nothing_is_left_to_others():
    advice = advise(found(188.0, 190.0))
    assert advice["flags"] == [] and "use it for something else" in advice["why"][0]


def test_what_was_not_measured_is_said():
    assert "needs two GPUs, found 1" in advise(found(100.0))["why"][0]


@pytest.mark.parametrize(
    ("epoch_megabytes", "flags"),
    [
        (313, []),  # the cache holds them as it is
        (3129, ["--cache-megabytes", "3129"]),
        (31281, ["--cache", "disk", "--cache-megabytes", "31281"]),
    ],
)
def test_a_slow_data_side_is_told_how_much_to_keep(epoch_megabytes, flags):
    advice = advise(found(90.0, data=100.0, epoch_megabytes=epoch_megabytes))
    assert advice["flags"] == flags
    assert "Making batches is the limit" in advice["why"][1]


def test_a_mode_faster_than_its_limit_says_that_the_machine_was_not_quiet():
    noisy = found(188.0, 190.0)
    noisy["modes"][1]["share_of_limit"] = 1.2
    assert any("measure again when it is quiet" in reason for reason in advise(noisy)["why"])
    assert not any("quiet" in reason for reason in advise(found(188.0, 190.0))["why"])


def test_a_buffer_is_advised_that_covers_the_longest_pause():
    parts = {"data": side(300.0, gap_s=8.0), "model": side(200.0, batches_per_s=10.0)}
    assert batches_to_cover(parts) == 82
    few = found(190.0)
    few["limits"]["single"] = parts
    assert advise(few)["flags"] == ["--buffer-size", "82"]


def test_the_table_fits_a_terminal_and_the_picture_is_one():
    result = found(188.0, 190.0)
    result |= {"advice": advise(result), "memory": None}
    lines = list(table_of(result))
    assert max(map(len, lines)) <= 90 and sum("GPU" in line for line in lines) >= 3
    assert any(line.startswith("👉 Use") for line in lines)
    assert picture_of(result).startswith(b"\x89PNG")
    steady = [line.split()[-1] for line in lines if "%" in line and line.split()[-1][0] == "0"]
    assert steady == ["0.93"] * 3  # of each mode


def test_the_stronger_gpu_trains_and_wrong_indices_are_refused():
    gpus = [Gpu(0, "big", "0", 48_000, 0), Gpu(1, "small", "1", 12_000, 1)]
    placed = _placements(Config(), gpus)
    assert placed["single"][1].data_gpus == () and placed["single"][1].model_gpu.index == 0
    assert [gpu.index for gpu in placed["multi"][1].data_gpus] == [1]
    assert placed["multi"][1].model_gpu.index == 0
    assert set(_placements(Config(), gpus[:1])) == {"single"}
    with pytest.raises(GpuError, match="Invalid model_gpu=7"):
        _placements(Config(data=DataConfig(data_gpu=0, model_gpu=7)), gpus)


def test_wrong_flags_are_refused_before_anything_starts(tmp_path):
    for arguments, said in (
        (["--seconds", "0"], "--seconds 0: expected 1 to 3600"),
        (["--fake-gpus", "many"], "--fake-gpus: found 'many'; expected a whole number"),
        (["--bath-size", "3"], "Did you mean --batch-size"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_flags(arguments)
    with pytest.raises(InputError, match="no such folder"):
        read_flags(["--train-data", str(tmp_path / "none")])


def test_nothing_is_kept_between_epochs_unless_asked_for(tmp_path):
    assert read_flags([])[1].data.cache == "off"
    assert read_flags(["--cache", "memory"])[1].data.cache == "memory"
    assert read_flags(["--fake-gpus", "2"])[1].run.fake_gpus == 2
