"""`launcher.py bench`: the modes side by side on this machine and this data, with the limit."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from shared.commands.bench.runs import PARTS_IN_WORDS, BenchRun
from shared.commands.demo_corpus import make_demo_corpus
from shared.commands.machine_report import (
    add_report_flags,
    check_report_path,
    measured_here,
    sizes_of,
    write_report,
)
from shared.commands.train import check_data_folders
from shared.config.flags import (
    OptionsParser,
    PlainParser,
    memory_named,
    number_of_fake_gpus,
    remarks_on,
    resolve_config,
)
from shared.config.installation import PROGRAM
from shared.config.settings import Config, DataConfig
from shared.config.toml_file import load_config, read_values
from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.say import say_plainly
from shared.devices.gpu_remarks import remarks
from shared.devices.gpus import Gpu, Placement, choose_gpus, list_gpus
from shared.devices.precision import check_precision
from shared.diagnosis.bench_advice import advise, limit_of
from shared.errors import ConfigError, InputError
from shared.run.directory import RunDirectory
from shared.run.files import make_folder, write_file
from shared.task.registry import Task
from shared.worker.memory_ahead import MemoryTable, memory_table

_NUM_EXAMPLES = 400


def main(arguments: list[str]) -> int:
    """Measure, show, and say which flags to use."""
    flags, config = read_flags(arguments)
    gpus = list_gpus(config.run.fake_gpus)
    placements = _placements(config, gpus)
    for _, placement in placements.values():
        check_precision(config.model.precision, placement.model_gpu)
    output = stdout_for_json_alone() if flags.json else None
    of_gpus = (
        remark for _, placement in placements.values() for remark in remarks(gpus, placement)
    )
    for remark in dict.fromkeys((*remarks_on(flags), *of_gpus)):
        say_plainly(f"⚠️  {remark}")
    out = Path(flags.out or Path("runs") / time.strftime("bench-%Y%m%d-%H%M%S"))
    make_folder(out)
    config = _with_data(config, out, say_plainly)
    found = measure(config, placements, gpus, flags.seconds, out, say_plainly)
    name, (_, placement) = list(placements.items())[-1]
    memory = _memory_of(RunDirectory(out / name), config, placement.model_gpu, flags.gpu_memory)
    found["memory"] = None if memory is None else dataclasses.asdict(memory)
    if flags.report:
        _write_report(flags.report, found, gpus, memory, RunDirectory(out / name), placement)
    from shared.console.bench_view import picture_of, table_of

    found["picture"] = str(out / "bench.png")
    write_file(found["picture"], picture_of(found))
    if output is not None:
        write_json(output, found)
        return 0
    for line in table_of(found):
        say_plainly(line)
    say_plainly(f"📄 Picture: {found['picture']}")
    return 0


def _memory_of(
    run: RunDirectory, config: Config, gpu: Gpu | None, named_mb: int | str | None
) -> MemoryTable | None:
    """What steps of each size take on this data, where there is a GPU, or the memory of one was named."""
    free_mb = named_mb if isinstance(named_mb, int) else gpu.memory_mb - gpu.used_mb if gpu else 0
    if not free_mb:
        return None
    its_config = load_config(run.config, config.run.task)
    lengths = Task.of(config.run.task).form().lengths
    return memory_table(its_config, run, gpu, free_mb, lengths)


def _write_report(
    path: str,
    found: dict,
    gpus: list[Gpu],
    memory: MemoryTable | None,
    run: RunDirectory,
    placement: Placement,
) -> None:
    config = load_config(run.config, found["task"])
    measured = measured_here(config, run, placement.model_gpu, sizes_of(config), say_plainly)
    bench = {name: value for name, value in found.items() if name not in ("data", "memory")}
    write_report(path, "bench", gpus, memory, bench=bench, **measured)
    say_plainly(f"📄 Report: {path}")


def bench_parser() -> PlainParser:
    """The flags of the command."""
    parser = OptionsParser(
        ("data", "task", "model"),
        prog=f"{PROGRAM} bench",
        usage=f"{PROGRAM} bench [--train-data DIR] [--data-gpu 0 --model-gpu 1] [flags]",
        description="Train for a minute in each mode (batch and step in turns, single-GPU buffered, "
        "multi-GPU), then say how close each comes to the limit and which flags to use. Without "
        "--cache no features are kept, as in a first epoch.",
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="N", help="length of each measurement [60]"
    )
    parser.add_argument("--out", metavar="DIR", help="where runs and picture go [runs/bench-…]")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    add_report_flags(parser)
    parser.add_argument(
        "--fake-gpus",
        metavar="N",
        help="pretend to have this many GPUs, each a share of the CPU",
    )
    parser.add_argument("--task", metavar="FILE", help="measure this task instead: FILE.py")
    return parser


def read_flags(arguments: list[str]) -> tuple[argparse.Namespace, Config]:
    """The flags, and the configuration that they make.

    Raises:
        ConfigError: a flag can't be.
    """
    flags = bench_parser().parse_all(arguments)
    flags.gpu_memory = memory_named(flags.gpu_memory)
    check_report_path(flags.report)
    if not 1 <= flags.seconds <= 3600:
        raise ConfigError(f"--seconds {flags.seconds:g}: expected 1 to 3600.")
    if flags.fake_gpus is not None:
        flags.values["run"] = {"fake_gpus": number_of_fake_gpus(flags.fake_gpus)}
    if flags.task is not None:
        flags.values.setdefault("run", {})["task"] = flags.task
    config = resolve_config(flags)
    if config.data.num_model_replicas > 1:
        raise ConfigError("bench measures one model GPU. Name one with --model-gpu.")
    in_file = read_values(Path(flags.config)) if flags.config else {}
    if not any("cache" in values.get("data", {}) for values in (flags.values, in_file)):
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, cache="off"))
    check_data_folders(config)
    return flags, config


def _placements(config: Config, gpus: list[Gpu]) -> dict[str, tuple[Config, Placement]]:
    """A configuration and its GPUs for single-GPU mode and, where it can be, for two GPUs.

    Raises:
        GpuError: the flags name GPUs that can't be had.
    """
    data = config.data
    alone = dataclasses.replace(data, data_gpu=None, model_gpu=None)
    found = {"single": (dataclasses.replace(config, data=alone), choose_gpus(alone, gpus))}
    usable = [gpu for gpu in gpus if not gpu.problem]
    if data.data_gpu is None and data.model_gpu is None and len(usable) >= 2:
        # The stronger GPU trains; of equal ones the second.
        ranked = sorted(usable, key=lambda gpu: (gpu.memory_mb, gpu.index))
        data = dataclasses.replace(data, data_gpu=(ranked[-2].index,), model_gpu=ranked[-1].index)
    if data.data_gpu is not None or data.model_gpu is not None:
        found["multi"] = (dataclasses.replace(config, data=data), choose_gpus(data, gpus))
    return found


def _with_data(config: Config, out: Path, say: Callable[[str], None]) -> Config:
    """The configuration with a data set: the user's, or one that is spoken here."""
    if config.data.train_data:
        return config
    task = Task.of(config.run.task)
    if task.has_data:
        raise InputError(
            f"{task.name} has a data side of its own: name its data with --train-data DIR."
        )
    say(
        f"🎙  No --train-data: speaking {_NUM_EXAMPLES} sentences with espeak-ng into {out / 'corpus'}"
    )
    corpus = make_demo_corpus(out, _NUM_EXAMPLES, num_groups=3)
    return dataclasses.replace(
        config, data=dataclasses.replace(config.data, train_data=str(corpus))
    )


def measure(
    config: Config,
    placements: dict[str, tuple[Config, Placement]],
    gpus: list[Gpu],
    seconds: float,
    out: Path,
    say: Callable[[str], None],
) -> dict:
    """Run everything, one after the other; returns what `--json` prints."""
    limits: dict[str, dict] = {}
    modes: list[dict] = []

    def say_pace(part: str, pace: dict) -> None:
        say(f"   {PARTS_IN_WORDS[part]}: {pace['batches_per_s']:.2f} batches/s")

    for name, (its_config, placement) in placements.items():
        data = dataclasses.replace(its_config.data, train_data=config.data.train_data)
        bench_run = BenchRun(dataclasses.replace(its_config, data=data), placement, out / name)
        prepared = bench_run.prepare(say)
        what = ("sequential", "data", "model") if name == "single" else ("data", "model")
        named = ", ".join(PARTS_IN_WORDS[part] for part in what)
        say(f"⏱  {_ON[name]}: {named} ({seconds:g} s each)")
        parts = bench_run.parts(what, seconds, say_pace)
        if name == "single":
            modes.append({"mode": "sequential", "limit": name, "flags": [], **parts["sequential"]})
        limits[name] = {side: parts[side] for side in ("data", "model")}
        mode = "single-GPU buffered" if name == "single" else "multi-GPU"
        say(f"⏱  {_ON[name]}: training, {mode} ({seconds:g} s)")
        modes.append(
            {"mode": mode, "limit": name, "flags": _gpu_flags(data), **bench_run.mode(seconds)}
        )
    for entry in modes:
        best = limit_of(limits[entry["limit"]])
        entry["share_of_limit"] = entry["amount_per_s"] / best
    found = {
        "seconds": seconds,
        "data": config.data.train_data,
        "examples": prepared.usable,
        "noun": prepared.noun,
        "details": prepared.details,
        "epoch_megabytes": _epoch_megabytes(out / "single", config.run.task),
        "gpus": [gpu.name for gpu in gpus],
        "fake_gpus": config.run.fake_gpus,
        "cores": len(os.sched_getaffinity(0)),
        "memory_megabytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "task": config.run.task,
        "model_size": config.task.model_size if Task.of(config.run.task).is_built_in else "",
        "batch_size": bench_run.batch_size,
        "unit": modes[0]["unit"],
        "buffer_size": config.data.pipeline_buffer_size,
        "cache": config.data.cache,
        "cache_megabytes": config.data.cache_megabytes,
        "no_multi_gpu": "" if "multi" in placements else f"it needs two GPUs, found {len(gpus)}",
        "limits": limits,
        "modes": modes,
    }
    return {**found, "advice": advise(found)}


_ON = {"single": "One GPU or none", "multi": "Two GPUs"}


def _gpu_flags(data: DataConfig) -> list[str]:
    if not data.data_gpus:
        return []
    return ["--data-gpu", ",".join(map(str, data.data_gpus)), "--model-gpu", str(data.model_gpu)]


def _epoch_megabytes(run: Path, task: str) -> int:
    """What all batches of an epoch take: at least what a cache of all their features would."""
    from shared.plan.index import Index
    from shared.plan.plan_of_run import plan_of

    directory = RunDirectory(run)
    plan = plan_of(load_config(directory.config, task), Index.load(directory.index))
    return math.ceil(sum(map(plan.nbytes, range(plan.batches_per_epoch))) / 2**20)
