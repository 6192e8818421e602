"""Where there is no terminal, the step lines say all that the live view would show."""

from shared.console.plain_lines import PlainLines
from shared.run.event_log import Restarted
from shared.status.status_keeper import StatusKeeper
from shared.worker.reports import Busy, LineKind, Phase


def test_a_step_line_ends_with_what_only_the_launcher_knows():
    shown = []
    keeper = StatusKeeper(50, 0.0)
    keeper.training(left_out=2)
    keeper.say("said before")
    lines = PlainLines(shown.append, keeper.status())
    for share in (0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
        keeper.report("data_worker-0", Busy(share, memory_mb=640))
        keeper.report("model_worker", Busy(1.0, memory_mb=900))
    keeper.say("⚠️  Left out u7: gone", LineKind.LEFT_OUT)
    keeper.event(Restarted(0.0, "data_worker-0", "data_worker-0: killed by SIGKILL", False))
    keeper.say("⚠️  data_worker-0: killed by SIGKILL; starting it again")
    keeper.say("   step 10 of 20 · loss 1.0", LineKind.STEP)
    for _ in range(2):
        lines.show(keeper.status())
    assert shown == [
        "⚠️  Left out u7: gone",
        "⚠️  data_worker-0: killed by SIGKILL; starting it again",
        "   step 10 of 20 · loss 1.0 · data_worker-0 640 MB, p5/p50 1.00 · left out 3 · restarts 1",
    ]


def test_compiling_is_said_once_for_each_process():
    shown = []
    keeper = StatusKeeper(50, 0.0)
    lines = PlainLines(shown.append, keeper.status())
    for _ in range(2):
        for phase in ("compiling", "training"):
            keeper.report("model_worker", Phase(phase, 60.0))
            lines.show(keeper.status())
    assert shown == ["⏳ model_worker: compiling; on a GPU this can take a minute or two"]


def test_a_device_that_does_not_say_how_busy_it_is_is_not_idle():
    shown = []
    keeper = StatusKeeper(50, 0.0)
    lines = PlainLines(shown.append, keeper.status())
    for _ in range(6):
        keeper.report("data_worker-0", Busy(None, memory_mb=640))
    keeper.say("   step 10", LineKind.STEP)
    lines.show(keeper.status())
    assert shown == ["   step 10 · data_worker-0 640 MB, p5/p50 – · left out 0 · restarts 0"]
