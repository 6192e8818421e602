"""The signals that stop a run, and who handles them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# How Python says that a signal is handled; None is a handler that is not Python's.
Handling = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def handle_stops(handler: Callable[[int, object], None]) -> dict[int, Handling]:
    """Handle the signals that stop a run; returns how they were handled before.

    A hang-up that whoever started this has it ignore (nohup) stays ignored. Only a process's main
    thread can handle signals: in another one, they stay with whoever has that.
    """
    if not in_main_thread():
        return {}
    wanted = [
        number
        for number in STOP_SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    ]
    return {number: signal.signal(number, handler) for number in wanted}


def handle_again(before: dict[int, Handling]) -> None:
    """Have the signals handled as they were."""
    for number, handler in before.items():
        signal.signal(number, handler)


def in_main_thread() -> bool:
    """Whether this thread may handle signals."""
    return threading.current_thread() is threading.main_thread()


def interrupt(number: int, frame: object) -> None:
    """End what is going on as Ctrl-C does."""
    raise KeyboardInterrupt
