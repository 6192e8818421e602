"""What the launcher and its workers have agreed on: environment, phases, exit codes. Said once."""

from __future__ import annotations

import signal

from shared.errors import Trouble

# What a worker finds in its environment where a launcher has started it.
ROLE_VARIABLE = "TANDEM_ROLE"  # "data" or "model"; absent where a person started it
PARENT_VARIABLE = "TANDEM_LAUNCHER_PID"  # with whom it dies
START_VARIABLE = "TANDEM_STARTED_AT"  # when the command began, by `machine_s`
RESTART_VARIABLE = "TANDEM_RESTARTED"  # there was one before it in this command
PIPE_VARIABLE = "TANDEM_REPORT_FD"  # where its reports go
RECORD_VARIABLE = "TANDEM_READING_FD"  # memory in which it notes what it decodes
SUSPECTS_VARIABLE = "TANDEM_SUSPECTS"  # rows that the one before it was decoding at its crash

EXIT_FINISHED, EXIT_INTERRUPTED = 0, 130
EXIT_TO_BEGIN_AGAIN = 75  # of a replica of the model process that is well, but has lost another

# Phases that the launcher knows the meaning of; any other name is only shown.
STARTING = "starting"
COMPILING = "compiling"
TRAINING, SERVING = "training", "serving"  # at work: how busy a side is says all about it
WAITING = "waiting for data"  # the model worker's, between two batches
# A replica's, of the model process: as long as the others take, which are watched themselves.
WAITING_FOR_REPLICAS = "waiting for the other replicas"
STANDING_BY = "standing by"  # of a spare that could take over at once
SHOWING, CLOSING = "making samples", "closing"  # the model worker's, with everything saved

# What a fault of the code that decodes can bring. The others come from people and the kernel.
CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
)


def signal_name(number: int) -> str:
    """A signal as people know it, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def status_in_words(status: int) -> str:
    """How a process ended, from its status as subprocess has it: negative for a signal."""
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"


def trouble_of(status: int) -> Trouble:
    """What sort of end a status tells of, where the process has not said why."""
    return Trouble.KILLED if status == -signal.SIGKILL else Trouble.OTHER
