"""`launcher.py validate`: the five checks of a two-GPU machine, on the code that trains."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from shared import machine_checks
from shared.check_children import CheckChildren
from shared.command_line import PlainParser, number_of_fake_gpus, resolve_config
from shared.endpoints import default_endpoint, remove_socket
from shared.errors import TandemError
from shared.gpus import Gpu, list_gpus
from shared.machine_checks import CheckFailed, Stopwatch
from shared.progress_line import ProgressLine
from shared.training_run import say_plainly

TITLES = (
    "Prerequisites: driver, TensorFlow, two GPUs",
    "Placement: each process sees exactly its GPU",
    "Model: built, and a forward pass on its GPU",
    "Transfer: arrays from the data GPU to the model GPU",
    "Pipeline: three batches from files to training steps",
)


def main(arguments: list[str]) -> int:
    """Run the checks until one fails; returns 0 if none did."""
    flags = _read_flags(arguments)
    gpus = list_gpus(flags.fake_gpus)
    say_plainly(
        f"🔎 Validating data GPU {flags.data_gpu} and model GPU {flags.model_gpu}"
        + (f" of {flags.fake_gpus} fake GPUs" if flags.fake_gpus else "")
    )
    folder = Path(tempfile.mkdtemp(prefix="tandem-validate-"))
    # The tiny corpus of today must not push the user's own indexes out of the cache.
    before = os.environ.get("TANDEM_CACHE")
    os.environ["TANDEM_CACHE"] = str(folder / "cache")
    passed = False
    try:
        passed = _run_checks(_checks(flags, gpus, folder))
    finally:
        if before is None:
            del os.environ["TANDEM_CACHE"]
        else:
            os.environ["TANDEM_CACHE"] = before
        if passed or not (folder / "run").exists():
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say_plainly(f"   Logs: {folder / 'run'}")
    return 0 if passed else 1


def validate_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py validate",
        usage="launcher.py validate [--data-gpu 0 --model-gpu 1] [--fake-gpus N]",
        description="Five checks of a two-GPU machine with the processes and the transport of a "
        "real run. Exit code 0 if all pass, else 1.",
    )
    parser.add_argument("--data-gpu", type=int, default=0, metavar="N", help="data GPU [0]")
    parser.add_argument("--model-gpu", type=int, default=1, metavar="N", help="model GPU [1]")
    parser.add_argument("--fake-gpus", metavar="N",
                        help="believe in this many GPUs and use shares of the CPU instead")
    return parser


def _read_flags(arguments: list[str]) -> argparse.Namespace:
    flags = validate_parser().parse_all(arguments)
    if flags.fake_gpus is None:
        nothing = argparse.Namespace(values={}, config=None)
        flags.fake_gpus = resolve_config(nothing).run.fake_gpus  # of the environment
    else:
        flags.fake_gpus = number_of_fake_gpus(flags.fake_gpus)
    return flags


def _checks(flags, gpus: list[Gpu], folder: Path) -> Iterator[Callable[[], list[str]]]:
    """The five checks in order; each is called once, before the next is asked for."""
    yield lambda: machine_checks.prerequisites(gpus)
    placement = run = config = None
    endpoint = default_endpoint(secrets.token_hex(8))
    by_role: dict[str, Gpu] = {}
    children: list[CheckChildren] = []

    def second() -> list[str]:
        nonlocal placement, run, config
        placement = machine_checks.placed(flags.data_gpu, flags.model_gpu, gpus)
        by_role.update(data=placement.data_gpus[0], model=placement.model_gpu)
        run, config = machine_checks.prepared_run(folder, placement, flags.fake_gpus)
        children.append(CheckChildren(run, by_role, endpoint))
        return machine_checks.placement_of(children[0], by_role)

    try:
        yield second
        yield lambda: machine_checks.forward_pass(children[0], by_role["model"])
        yield lambda: machine_checks.transfer(children[0], by_role)
    finally:
        for child in children:
            child.end()
        remove_socket(endpoint)
    yield lambda: machine_checks.pipeline(run, config, placement)


def _run_checks(checks: Iterator[Callable[[], list[str]]]) -> bool:
    shown = ProgressLine(sys.stdout, say_plainly)
    try:
        for number, (title, check) in enumerate(zip(TITLES, checks, strict=True), start=1):
            watch = Stopwatch()
            shown.show(number - 1, len(TITLES), title)
            try:
                saw = check()
            except TandemError as error:
                shown.clear()
                _say_failure(number, title, watch.lap(), machine_checks.as_failed_check(error))
                return False
            shown.clear()
            say_plainly(f"✅ {number}/{len(TITLES)} {title} ({watch.lap():.1f} s)")
            for line in saw:
                say_plainly(f"      {line}")
    finally:
        shown.clear()
        checks.close()
    say_plainly("🎉 All validation checks passed!")
    say_plainly("Your system is ready for dual-GPU training.")
    return True


def _say_failure(number: int, title: str, seconds: float, failed: CheckFailed) -> None:
    say_plainly(f"❌ {number}/{len(TITLES)} {title} ({seconds:.1f} s)")
    say_plainly(f"      {failed}")
    say_plainly(f"      What to do: {failed.remedy}")
    say_plainly(f"❌ {number - 1} of {len(TITLES)} checks passed; the others were not run.")
