"""How far a run is, in one short line; metrics.jsonl and the live view have everything else."""

from __future__ import annotations

from typing import Any

from shared.clock import clock
from shared.diagnosis.verdict import Verdict
from shared.worker.reports import Outlook


def step_line(record: dict[str, Any], outlook: Outlook, verdict: Verdict, loss_trend: str) -> str:
    """The line of a logged step, for where there is no live view.

    It is shorter than a terminal is wide, and says only what is another thing each time.
    """
    about = "~" if outlook.total_is_estimate else ""
    parts = [
        f"   step {record['step']}/{about}{outlook.total_steps}",
        f"loss {record['loss']:.3f} {loss_trend}".rstrip(),
        f"{outlook.steps_per_s:.2f} steps/s" if outlook.steps_per_s else "",
        f"{clock(outlook.left_s)} left",
        verdict.briefly,
    ]
    return " · ".join(filter(None, parts))
