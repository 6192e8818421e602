"""`launcher.py validate`: the five checks of a two-GPU machine, on the code that trains."""

from __future__ import annotations

import argparse
import dataclasses
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from shared.commands.machine_report import (
    add_report_flags,
    check_report_path,
    measured_here,
    sizes_of,
    write_report,
)
from shared.commands.validate import machine_checks
from shared.commands.validate.check_children import CheckChildren
from shared.commands.validate.machine_checks import CheckFailed, Stopwatch
from shared.commands.validate.task_checks import check_task
from shared.config.flags import (
    OF_THIS_MACHINE,
    PlainParser,
    memory_named,
    number_of_fake_gpus,
    resolve_config,
)
from shared.config.installation import PROGRAM
from shared.config.option import rules_of
from shared.config.settings import Config, DataConfig
from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.memory_text import memory_lines
from shared.console.progress_line import ProgressLine
from shared.console.say import say_plainly
from shared.devices.gpu_remarks import remarks
from shared.devices.gpus import Gpu, Placement, list_gpus
from shared.errors import ConfigError, TandemError
from shared.run.directory import RunDirectory
from shared.stream.endpoints import default_endpoint, remove_socket
from shared.task.registry import Task
from shared.worker.memory_ahead import MemoryTable, memory_table

TITLES = (
    "Prerequisites: driver, TensorFlow, two GPUs",
    "Placement: each process sees exactly its GPU",
    "Model: built, and a forward pass on its GPU",
    "Transfer: features on the data GPU, arrays to the model GPU",
    "Pipeline: three batches from files to training steps",
)


def main(arguments: list[str]) -> int:
    """Run the checks with each data GPU, or of a task, until one fails; returns 0 if none did."""
    flags = _read_flags(arguments)
    output = stdout_for_json_alone() if flags.json else None
    if flags.task is not None:
        found = check_task(flags)
        sound = all(check["passed"] for check in found)
        if output is not None:
            write_json(output, {"passed": sound, "checks": found, "logs": None})
        return 0 if sound else 1
    checks: list[dict] = []
    passed, logs, seen = True, None, _Seen()
    for data_gpu in flags.data_gpu:
        of_this_gpu, logs = _check_pair(data_gpu, flags, seen)
        checks += [{"data_gpu": data_gpu, **check} for check in of_this_gpu]
        passed = checks[-1]["passed"]
        if not passed:
            break
    else:
        say_plainly("🎉 All validation checks passed!")
        say_plainly("Your system is ready for dual-GPU training.")
        if flags.fake_gpus:
            say_plainly(
                "That was on fake GPUs; run it without --fake-gpus where there are real ones."
            )
    if flags.report:
        of_all = {"passed": passed, "checks": checks, **seen.measured}
        write_report(flags.report, "validate", seen.gpus, seen.memory, **of_all)
        say_plainly(f"📄 Report: {flags.report}")
    if output is not None:
        write_json(output, {"passed": passed, "checks": checks, "logs": logs})
    return 0 if passed else 1


@dataclasses.dataclass
class _Seen:
    """What is known of the machine beside its checks."""

    gpus: list[Gpu] = dataclasses.field(default_factory=list)
    memory: MemoryTable | None = None
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)

    def look_at(
        self, run: RunDirectory, config: Config, gpu: Gpu, flags: argparse.Namespace
    ) -> None:
        """Predict and, for the report, measure what steps take; once, on a GPU that passed."""
        free_mb = flags.gpu_memory
        if free_mb in (None, OF_THIS_MACHINE):
            free_mb = gpu.memory_mb - gpu.used_mb
        if self.memory is None and (free_mb or flags.report):
            lengths = Task.of(config.run.task).form().lengths
            self.memory = memory_table(config, run, gpu, free_mb, lengths, as_measured=True)
            for line in memory_lines(dataclasses.asdict(self.memory)):
                say_plainly(line)
        if flags.report and not self.measured:
            self.measured = measured_here(config, run, gpu, sizes_of(config), say_plainly)


def _check_pair(
    data_gpu: int, flags: argparse.Namespace, seen: _Seen
) -> tuple[list[dict], str | None]:
    """How each check with one data GPU went, and where the logs are if one failed."""
    say_plainly(
        f"🔎 Validating data GPU {data_gpu} and model GPU {flags.model_gpu}"
        + (f" of {flags.fake_gpus} fake GPUs" if flags.fake_gpus else "")
    )
    folder = Path(tempfile.mkdtemp(prefix="tandem-validate-"))
    # The tiny corpus of today must not push the user's own indexes out of the cache.
    before = os.environ.get("TANDEM_CACHE")
    os.environ["TANDEM_CACHE"] = str(folder / "cache")
    logs, passed = folder / "run", False
    prepared: list[tuple[RunDirectory, Config, Placement]] = []
    try:
        results = _run_checks(_checks(data_gpu, flags, folder, seen, prepared))
        passed = results[-1]["passed"]
        if passed:
            run, config, placement = prepared[0]
            assert placement.model_gpu is not None  # both were named
            seen.look_at(run, config, placement.model_gpu, flags)
    finally:
        if before is None:
            del os.environ["TANDEM_CACHE"]
        else:
            os.environ["TANDEM_CACHE"] = before
        if passed or not logs.exists():
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say_plainly(f"   Logs: {logs}")
    return results, str(logs) if logs.exists() else None


def validate_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} validate",
        usage=f"{PROGRAM} validate [--data-gpu 0 --model-gpu 1] [--fake-gpus N] [--json]\n"
        f"       {PROGRAM} validate --task FILE.py [--train-data DIR] [--json]",
        description="Five checks of a two-GPU machine with the processes and the transport of a "
        "real run, or a task of your own. Exit code 0 if all pass, else 1.",
    )
    parser.add_argument(
        "--data-gpu",
        type=_gpu_indices,
        default=(0,),
        metavar="N",
        help="data GPU, or several such as 0,2, each checked in turn [0]",
    )
    parser.add_argument("--model-gpu", type=int, default=1, metavar="N", help="model GPU [1]")
    parser.add_argument(
        "--fake-gpus",
        metavar="N",
        help="pretend to have this many GPUs, each a share of the CPU",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    add_report_flags(parser)
    of_task = parser.add_argument_group("of your own task, on the CPU")
    of_task.add_argument("--task", metavar="FILE", help="check this task instead: FILE.py")
    of_task.add_argument("--train-data", metavar="DIR", help="its data [a small corpus of speech]")
    of_task.add_argument(
        "--batch-size", type=int, default=4, metavar="N", help="examples in a batch [4]"
    )
    of_task.add_argument(
        "--patience",
        type=float,
        metavar="S",
        help="seconds that one read may take [the task's own]",
    )
    return parser


def _gpu_indices(text: str) -> tuple[int, ...]:
    """Of --data-gpu, by the rule of the option."""
    rule = rules_of(DataConfig)["data_gpu"]
    try:
        return rule.parse(text)
    except ValueError:
        raise ConfigError(f"--data-gpu: found {text!r}; expected {rule.expected()}.") from None


def _read_flags(arguments: list[str]) -> argparse.Namespace:
    flags = validate_parser().parse_all(arguments)
    flags.gpu_memory = memory_named(flags.gpu_memory)
    check_report_path(flags.report)
    if flags.fake_gpus is None:
        nothing = argparse.Namespace(values={}, config=None)
        flags.fake_gpus = resolve_config(nothing).run.fake_gpus  # of the environment
    else:
        flags.fake_gpus = number_of_fake_gpus(flags.fake_gpus)
    return flags


_Checks = Generator[Callable[[], list[str]], None, None]


def _checks(
    data_gpu: int,
    flags: argparse.Namespace,
    folder: Path,
    seen: _Seen,
    prepared: list[tuple[RunDirectory, Config, Placement]],
) -> _Checks:
    """The five checks in order; each is called once, before the next is asked for.

    `prepared` gets the run that they are made on.
    """
    gpus: list[Gpu] = []

    def first() -> list[str]:
        gpus.extend(list_gpus(flags.fake_gpus))
        seen.gpus = gpus
        return machine_checks.prerequisites(gpus)

    yield first
    endpoint = default_endpoint(secrets.token_hex(8))
    by_role: dict[str, Gpu] = {}
    children: list[CheckChildren] = []

    def second() -> list[str]:
        placement = machine_checks.placed(data_gpu, flags.model_gpu, gpus)
        assert placement.model_gpu is not None  # both were named
        by_role.update(data=placement.data_gpus[0], model=placement.model_gpu)
        for remark in remarks(gpus, placement):
            say_plainly(f"⚠️  {remark}")
        run, config = machine_checks.prepared_run(folder, placement, flags.fake_gpus)
        prepared.append((run, config, placement))
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
    yield lambda: machine_checks.pipeline(*prepared[0])


def _run_checks(checks: _Checks) -> list[dict]:
    """Run them until one fails; returns how each went."""
    results = []
    shown = ProgressLine(sys.stdout, say_plainly)
    try:
        for number, (title, check) in enumerate(zip(TITLES, checks, strict=True), start=1):
            watch = Stopwatch()
            shown.show(number - 1, len(TITLES), title)
            try:
                saw = check()
            except TandemError as error:
                shown.clear()
                seconds, failed = watch.lap(), machine_checks.as_failed_check(error)
                results.append(_result(title, seconds, problem=str(failed), remedy=failed.remedy))
                _say_failure(number, title, seconds, failed)
                break
            shown.clear()
            seconds = watch.lap()
            results.append(_result(title, seconds, saw))
            say_plainly(f"✅ {number}/{len(TITLES)} {title} ({seconds:.1f} s)")
            for line in saw:
                say_plainly(f"      {line}")
    finally:
        shown.clear()
        checks.close()
    return results


def _result(
    title: str, seconds: float, saw: list[str] | None = None, problem: str = "", remedy: str = ""
) -> dict:
    """One check as `--json` has it."""
    return {
        "name": title, "passed": saw is not None, "seconds": round(seconds, 2), "saw": saw or [],
        "problem": problem or None, "remedy": remedy or None,
    }  # fmt: skip


def _say_failure(number: int, title: str, seconds: float, failed: CheckFailed) -> None:
    say_plainly(f"❌ {number}/{len(TITLES)} {title} ({seconds:.1f} s)")
    say_plainly(f"      {failed}")
    say_plainly(f"      What to do: {failed.remedy}")
    say_plainly(f"❌ {number - 1} of {len(TITLES)} checks passed; the others were not run.")
