"""Tandem's command line: one command is one training run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from typing import TYPE_CHECKING

from shared.commands import COMMANDS
from shared.config.installation import how_to_install
from shared.errors import PlacementError, TandemError
from shared.launching.stop_signals import handle_again, handle_stops, interrupt
from shared.worker.contract import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from shared.config.settings import Config
    from shared.launching.training_run import RunResult


def run(config: Config) -> RunResult:
    """Train as the configuration says; returns a RunResult.

    TANDEM_FAKE_GPUS counts here as it does on the command line. Called in a process's main thread,
    it handles Ctrl-C and SIGTERM itself until the run has ended.

    Raises:
        TandemError: the run could not be started.
    """
    from shared.commands.train import run as train
    from shared.config.flags import with_fake_gpus

    return train(with_fake_gpus(config), started_s=time.time())


_NEEDED = ("numpy", "zmq", "msgpack", "pynvml", "soundfile", "tensorflow")


def _is_equipped() -> bool:
    """Whether this is a Python that the program can run in: the likeliest slip of a new shell."""
    return sys.version_info >= (3, 11) and all(map(importlib.util.find_spec, _NEEDED))


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; every expected error is a sentence."""
    started_s = time.time()
    if not _is_equipped():
        print(f"❌ {how_to_install(sys.executable)}", file=sys.stderr)
        return 2
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if arguments and arguments[0] in COMMANDS:
            return importlib.import_module(COMMANDS[arguments[0]][0]).main(arguments[1:])
        if arguments and not arguments[0].startswith("-"):
            from shared.config.flags import refuse_command

            refuse_command(arguments[0], COMMANDS)
        # Until training, which has its own way. Before the imports below: a scheduler's signal would
        # end this process in its own.
        before = handle_stops(interrupt)
        try:
            from shared.commands.train import main as train

            commands = {name: words for name, (*_, words) in COMMANDS.items()}
            return train(arguments, commands, started_s)
        finally:
            handle_again(before)
    except TandemError as error:
        print(f"❌ {error}", file=sys.stderr)
        if isinstance(error, PlacementError):
            print("❌ Multi-GPU mode was requested but configuration failed", file=sys.stderr)
            print(
                "   Please check your GPU indices and ensure you have at least 2 GPUs",
                file=sys.stderr,
            )
        return error.exit_code
    except OSError as error:  # a full disk, no descriptors left
        where = f"{error.filename}: " if error.filename else ""
        print(
            f"❌ {where}{error.strerror or error}. Look at the disk's space and rights, and at "
            "the limit on open files (ulimit -n).",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
