"""Where there is no terminal, what is said is shown in plain lines."""

from shared.console.plain_lines import PlainLines
from shared.status.status_keeper import StatusKeeper
from shared.worker.reports import Busy, LineKind, Phase


def test_each_line_that_is_said_is_shown_once_and_as_it_is():
    shown = []
    keeper = StatusKeeper(50, 0.0)
    keeper.training(left_out=2)
    keeper.say("said before")
    lines = PlainLines(shown.append, keeper.status())
    keeper.report("data_worker-0", Busy(0.5, memory_mb=640))
    said = ["⚠️  Left out u7: gone", "⚠️  data_worker-0: killed by SIGKILL; starting it again",
            "   step 10/20 · loss 1.000"]  # fmt: skip
    for text, kind in zip(said, (LineKind.LEFT_OUT, LineKind.STORY, LineKind.STEP), strict=True):
        keeper.say(text, kind)
    for _ in range(2):
        lines.show(keeper.status())
    assert shown == said


def test_compiling_is_said_once_for_each_process():
    shown = []
    keeper = StatusKeeper(50, 0.0)
    lines = PlainLines(shown.append, keeper.status())
    for _ in range(2):
        for phase in ("compiling", "training"):
            keeper.report("model_worker", Phase(phase, 60.0))
            lines.show(keeper.status())
    assert shown == ["⏳ model_worker: compiling; on a GPU this can take a minute or two"]
