"""The live view, drawn into a string at any width."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from shared.console.live_view import LastingStream, LiveView
from shared.run.event_log import Restarted
from shared.status.status_keeper import StatusKeeper
from shared.worker.reports import Busy, LineKind, Metrics, Outlook, Phase

START_S = 1_000_000.0


class Clock:
    now_s = START_S + 75

    def __call__(self):
        return self.now_s


OUTLOOK = Outlook(
    epoch_done=0.45,
    epoch_left_s=130.0,
    total_steps=1000,
    total_is_estimate=False,
    left_s=3700.0,
    steps_per_s=8.25,
    verdict="waiting for: decoding (25% of the time); try --num-workers 6",
    is_waiting=True,
)


def metrics(step=120, outlook=OUTLOOK, **changes):
    record = {
        "step": step, "epoch": 3, "loss": 1.5 - step / 1000, "step_ms": 90.0, "unit": "s of audio",
        "data_wait_ms": 30.0, "queue_depth": 34, "amount_per_s": 321.0,
    } | changes  # fmt: skip
    return Metrics(record, outlook)


@pytest.fixture
def draw():
    """Tells a view what a run told, and gives what it shows."""

    def draw(width, *told, says=(), events=(), clock=None, height=60, left_out=0, **devices):
        clock = clock or Clock()
        keeper = StatusKeeper(50, START_S, now=clock, **devices)
        keeper.training(left_out)
        terminal = io.StringIO()
        console = Console(file=terminal, width=width, height=height, color_system=None)
        view = LiveView(keeper.status(), console=console, now=clock)
        for worker, report in told:
            keeper.report(worker, report)
        for line in says:
            keeper.say(*line)
        for event in events:
            keeper.event(event)
        view.show(keeper.status())
        terminal.seek(0)
        terminal.truncate()
        console.print(view.panel())
        return terminal.getvalue()

    return draw


def told(clock, *reports):
    """The status of a run of which this was told."""
    keeper = StatusKeeper(50, START_S, now=clock)
    for worker, report in reports:
        keeper.report(worker, report)
    return keeper.status()


def a_run():
    yield "data_worker-0", Phase("serving", 8.0)
    yield "model_worker", Phase("training", 60.0)
    for second in range(40):
        share = 0.2 if second % 10 == 0 else 0.8
        yield "data_worker-0", Busy(share, memory_mb=640)
        yield "model_worker", Busy(0.98, memory_mb=2355, queue_depth=33)
    for step in range(100, 121):
        yield "model_worker", metrics(step)
    yield "model_worker", Metrics({"step": 120, "val_loss": 1.25})


EVERYTHING = (
    "data GPU", "model GPU", "80 %", "98 %", "640 MB", "2.3 GB", "p5/p50 0.25", "p5/p50 1.00",
    "queue", "34/50", "epoch 3", "45%", "0:02:10 left", "waiting for: decoding",
    "try --num-workers 6", "step 120/1000", "loss 1.380 ↘", "validation 1.250", "8.25 steps/s",
    "321 s of audio/s", "left out 3", "restarts 1", "elapsed 0:01:15", "left 1:01:40",
)  # fmt: skip


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
def test_nothing_is_lost_at_any_width(draw, width):
    says = [("⚠️  Left out u7: gone", LineKind.LEFT_OUT)]
    events = [Restarted(START_S, "data_worker-0", "data_worker-0: killed by SIGKILL", False)]
    shown = draw(width, *a_run(), says=says, events=events, left_out=2)
    lines = shown.splitlines()
    assert all(len(line) <= width for line in lines), shown
    words = re.sub(r"\s+", " ", re.sub(r"[│╭╮╰╯]", " ", shown))
    for part in EVERYTHING:
        assert part in words, f"{part} is not in\n{shown}"
    assert len(re.findall("[▁▂▃▄▅▆▇█]{8}", shown)) >= 2  # two histories


def test_overfitting_stands_below_the_verdict(draw):
    remark = "overfitting: no better validation since step 60"
    outlook = dataclasses.replace(OUTLOOK, remark=remark)
    shown = draw(120, ("model_worker", metrics(outlook=outlook)))
    at = [n for n, line in enumerate(shown.splitlines()) if "waiting for" in line or remark in line]
    assert len(at) == 2 and at[1] == at[0] + 1, shown


def test_a_preparation_that_takes_long_is_seen_to_go_on(draw):
    clock = Clock()
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, color_system=None)
    status = told(clock, ("data_worker-0", Phase("starting", 60.0)),
                  ("model_worker", Phase("compiling", 60.0)))  # fmt: skip
    view = LiveView(status, console=console, now=clock)
    clock.now_s += 12
    console.print(view.panel())
    shown = terminal.getvalue()
    assert "compiling 0:00:12" in shown and "starting 0:00:12" in shown
    assert "elapsed 0:01:27" in shown


def test_time_left_runs_down_between_two_numbers(draw):
    clock = Clock()
    assert "left 1:01:40" in draw(80, ("model_worker", metrics()), clock=clock)
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, color_system=None)
    view = LiveView(told(clock, ("model_worker", metrics())), console=console, now=clock)
    clock.now_s += 10
    console.print(view.panel())
    assert "left 1:01:30" in terminal.getvalue()


def test_lanes_are_named_after_what_they_run_on(draw):
    reports = [(name, Busy(0.5)) for name in
               ("data_worker-0", "data_worker-1", "model_worker")]  # fmt: skip
    shown = draw(80, *reports, data_device="CPU", model_device="GPU")
    for label in ("data CPU  ", "data CPU 1", "model GPU"):
        assert label in shown


def test_numbers_that_are_missing_or_not_finite_do_no_harm(draw):
    shown = draw(80, ("model_worker", metrics(
        loss=None, amount_per_s="much",
        outlook=dataclasses.replace(OUTLOOK, verdict="", steps_per_s=None),
    )))  # fmt: skip
    assert "step 120/1000" in shown and "loss" not in shown


def test_a_resized_terminal_gets_a_clean_screen():
    terminal = io.StringIO()
    console = Console(
        file=terminal, width=100, height=30, force_terminal=True, _environ={"TERM": "xterm"}
    )
    status = told(Clock(), ("model_worker", metrics()))
    with LiveView(status, console=console, now=Clock()) as view:
        view.show(status)
        assert "\x1b[2J" not in terminal.getvalue()
        console.width = 60
        view.show(status)
        _before, _, after = terminal.getvalue().partition("\x1b[2J")
        assert "model GPU" in after
        view.show(status)
    assert terminal.getvalue().count("\x1b[2J") == 1


def test_several_busy_data_workers_keep_their_labels_apart_and_say_what_is_cached(draw):
    reports = [
        (
            f"data_worker-{n}",
            Busy(1.0, memory_mb=640, cached=1234, to_cache=5678),
        )
        for n in range(2)
    ]
    shown = draw(80, *reports)
    assert "data GPU   100 %" in shown and "data GPU 1 100 %" in shown
    assert shown.count("cached 1,234/5,678") == 2


def test_on_a_low_terminal_the_bars_go_and_the_numbers_stay(draw):
    shown = draw(40, *a_run(), left_out=3, height=16)
    assert len(shown.splitlines()) <= 16
    assert not re.search("[▁▂▃▄▅▆▇]{8}", shown)
    assert "98 %" in shown and "restarts" in shown and "waiting for" in shown


def test_a_terminal_that_is_gone_does_not_end_the_run():
    class Gone(io.StringIO):
        def write(self, text=""):
            raise OSError(5, "Input/output error")

        flush = write

    console = Console(file=LastingStream(Gone()), force_terminal=True, width=80)
    keeper = StatusKeeper(50, START_S, now=Clock())
    with LiveView(keeper.status(), console=console, now=Clock()) as view:
        for worker, report in a_run():
            keeper.report(worker, report)
            view.show(keeper.status())
        keeper.say("⏹  SIGHUP: finishing the step and saving")
        view.show(keeper.status())


def test_lines_are_shown_once_and_those_of_another_start_again():
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, color_system=None)
    first, second = (StatusKeeper(50, START_S, now=Clock()) for _ in range(2))
    view = LiveView(first.status(), console=console, now=Clock())
    for keeper in (first, second):
        keeper.say("going on")
        keeper.say("   step 1", LineKind.STEP)
        view.show(keeper.status())
        view.show(keeper.status())
    assert terminal.getvalue().splitlines() == ["going on", "going on"]


def test_how_far_the_look_at_the_data_is_can_be_seen():
    keeper = StatusKeeper(50, START_S, now=Clock())
    keeper.preparing("decoding every file once", 655, 1310)
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, color_system=None)
    console.print(LiveView(keeper.status(), console=console, now=Clock()).panel())
    assert "decoding every file once 655/1,310" in terminal.getvalue()


def test_a_device_that_does_not_say_how_busy_it_is_is_not_idle(draw):
    told = [("model_worker", Busy(None, queue_depth=3))] * 30
    (line,) = [line for line in draw(80, *told).splitlines() if "model GPU" in line]
    assert "– %" in line and "– MB" in line and "0 %" not in line and "p5/p50 –" in line


def test_each_replica_has_a_lane_and_its_own_queue(draw):
    reports = [*a_run(), ("model_worker-1", Busy(0.5, memory_mb=700, queue_depth=8)),
               ("model_worker-1", Phase("waiting for the other replicas", 0.0))]  # fmt: skip
    shown = draw(120, *reports)
    assert "model GPU 1" in shown and "700 MB" in shown
    assert "waiting for the other replicas" in shown
    assert re.search(r"queue +█+░+ 34/50  8/50", shown), shown
