"""Where there is no terminal, the step lines say all that the live view would show."""

from shared.console.plain_lines import PlainLines
from shared.run.event_log import Restarted
from shared.worker.reports import Busy, LineKind, Phase


def test_a_step_line_ends_with_what_only_the_launcher_knows():
    shown = []
    lines = PlainLines(shown.append, left_out=2)
    for share in (0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
        lines.report("data_worker-0", Busy(share, memory_mb=640))
        lines.report("model_worker", Busy(1.0, memory_mb=900))
    lines.say("⚠️  Left out u7: gone", LineKind.LEFT_OUT)
    lines.event(Restarted(0.0, "data_worker-0", "data_worker-0: killed by SIGKILL", False))
    lines.say("⚠️  data_worker-0: killed by SIGKILL; starting it again")
    lines.say("   step 10 of 20 · loss 1.0", LineKind.STEP)
    assert shown == [
        "⚠️  Left out u7: gone",
        "⚠️  data_worker-0: killed by SIGKILL; starting it again",
        "   step 10 of 20 · loss 1.0 · data_worker-0 640 MB, p5/p50 1.00 · left out 3 · restarts 1",
    ]


def test_compiling_is_said_once_for_each_process():
    shown = []
    lines = PlainLines(shown.append, left_out=0)
    for _ in range(2):
        lines.report("model_worker", Phase("compiling", 60.0))
        lines.report("model_worker", Phase("training", 60.0))
    assert shown == ["⏳ model_worker: compiling; on a GPU this can take a minute or two"]
