"""The main command: resolve everything, prepare the data, run the two sides."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path

from shared.commands.stages import is_done, plan_in_words, stages_of
from shared.config.flags import remarks_on, resolve_config, train_parser
from shared.config.installation import PROGRAM
from shared.config.settings import Config
from shared.config.toml_file import write_config
from shared.console.leave_report import leave_report
from shared.console.progress_line import can_draw
from shared.console.run_words import ending_lines
from shared.console.say import say_plainly
from shared.devices.gpu_remarks import remarks
from shared.devices.gpus import Gpu, Placement, choose_gpus, list_gpus
from shared.devices.precision import check_precision
from shared.errors import InputError
from shared.launching.batch_size import with_batch_size
from shared.launching.event_hook import words_of
from shared.launching.moved_data import is_same_data
from shared.launching.preparation_child import prepare_run, rewrite_identity
from shared.launching.run_record import RunRecord, View
from shared.launching.training_run import RunResult, TrainingRun, data_worker_names
from shared.places.engine import check_engine, open_engine
from shared.run.directory import RunDirectory, free_name
from shared.run.environment import write_environment
from shared.run.event_log import Ended
from shared.run.resume import (
    can_go_on,
    check_init_from,
    run_id_in,
    start_over,
    with_absolute_paths,
)
from shared.run.task_identity import check_same_task
from shared.status.run_status import RunStatus
from shared.stream.endpoints import (
    check_endpoint,
    endpoint_of_replica,
    refuse_if_taken,
    remove_stale_sockets,
)
from shared.task.registry import Task
from shared.worker.contract import EXIT_INTERRUPTED
from shared.worker.preparation_lines import Prepared


def main(arguments: list[str], commands: dict[str, str], started_s: float) -> int:
    """Parse the flags, run, and say how it ended; a stop during the preparation is an interrupt."""
    epilog = "other commands, each with a --help of its own:\n" + "\n".join(
        f"  {name:12} {words}" for name, words in commands.items()
    )
    parser = train_parser(PROGRAM, epilog)
    if not arguments:
        parser.print_usage()
        raise InputError("no --train-data was given. Try --help.")
    flags = parser.parse_all(arguments)
    config = resolve_config(flags)
    for remark in remarks_on(flags):
        say_plainly(f"⚠️  {remark}")
    try:
        return run(config, started_s).exit_code
    except KeyboardInterrupt:
        say_plainly("⏹  Interrupted before training began; the same command starts it again")
        return EXIT_INTERRUPTED


def run(config: Config, started_s: float) -> RunResult:
    """What a configuration asks for, to its end: one training run, or two after another."""
    run_dir = config.run.run_dir or _new_run_dir()
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, run_dir=run_dir))
    *earlier, last = stages = stages_of(config)
    if earlier:
        say_plainly(plan_in_words(stages))
    for stage in earlier:
        if is_done(stage) and not stage.run.fresh:
            say_plainly(f"✅ The {stage.run.task} in {stage.run.run_dir} is trained already")
            continue
        result = _run_one(stage, started_s)
        if result.exit_code:
            return result
        started_s = time.time()
    return _run_one(last, started_s)


def _run_one(config: Config, started_s: float) -> RunResult:
    """One training run, from its configuration to its end."""
    if not config.run.prepare_only:
        check_engine(config)
    gpus = list_gpus(config.run.fake_gpus)
    placement = choose_gpus(config.data, gpus)
    check_precision(config.model.precision, placement.model_gpu)
    task = Task.of(config.run.task)
    if not config.data.train_data:
        raise InputError("no --train-data was given: name the folder that holds the data.")
    check_data_folders(config)
    _check_endpoint(config)
    if config.run.on_event is not None:
        words_of(config.run.on_event)
    directory = RunDirectory(config.run.run_dir or "")
    config = with_absolute_paths(config)
    goes_on = not config.run.fresh and can_go_on(directory, config, is_same_data)
    if goes_on:
        check_same_task(directory, task, config.run.accept_edited_task)
    else:  # a run that has begun does not need the other one any more
        check_init_from(config)
        config.task.check()
    _announce(config, placement)
    for remark in remarks(gpus, placement, config.run.data_workers):
        say_plainly(f"⚠️  {remark}")
    directory.create()
    lock = directory.lock("launcher")
    try:
        directory.lock_out_workers()
        directory.remove_leftovers()
        remove_stale_sockets()
        return _run_locked(config, directory, placement, started_s, goes_on)
    finally:
        os.close(lock)


def _run_locked(
    config: Config,
    directory: RunDirectory,
    placement: Placement,
    started_s: float,
    goes_on: bool,
) -> RunResult:
    run_id = run_id_in(directory, config.run.run_id)
    run_dir = str(directory.path)
    config = dataclasses.replace(
        config, run=dataclasses.replace(config.run, run_dir=run_dir, run_id=run_id)
    )
    if config.run.fresh:
        start_over(directory)
    with RunRecord(
        directory,
        config.data.pipeline_buffer_size,
        started_s,
        data_device="GPU" if placement.data_gpus else "CPU",
        model_device="GPU" if placement.model_gpu else "CPU",
        on_event=config.run.on_event,
        settings=dataclasses.asdict(config),
    ) as record:
        return _run_recorded(config, directory, placement, started_s, goes_on, record)


def _run_recorded(
    config: Config,
    directory: RunDirectory,
    placement: Placement,
    started_s: float,
    goes_on: bool,
    record: RunRecord,
) -> RunResult:
    say, run_dir = record.say, str(directory.path)
    write_config(config, directory.config)
    if goes_on:
        say(f"📂 Continuing {run_dir}; its data was looked at when it began")
        if config.run.accept_edited_task:
            rewrite_identity(directory, config.run.task)
    else:
        say(f"📂 Looking at {config.data.train_data}")
        task = config.run.task
        say(
            _prepared_in_words(
                prepare_run(directory, say, config.run.live, task, on_progress=record.preparing)
            )
        )
    settled = with_batch_size(config, directory, placement.model_gpu, say)
    if settled is not config:
        config = settled
        write_config(config, directory.config)
    write_environment(directory, placement)
    if config.run.prepare_only:
        say(f"✅ Prepared {run_dir}; start the workers with:")
        named = "" if Task.of(config.run.task).is_default else f" --task {config.run.task}"
        say(f"   python -m model_worker --run {run_dir}{named}")
        say(f"   python -m data_worker --run {run_dir}{named}")
        return RunResult(0, "prepared", run_dir, 0)
    say(f"📁 Run directory: {run_dir}")
    record.training(left_out=_num_lines(directory.quarantine))
    with open_engine(config, directory, data_worker_names(config, placement), say) as engine:
        with _view(config, record.status) as record.view:
            run = TrainingRun(
                config, directory, placement, say, started_s, record.report,
                on_event=record.event, on_stop=record.stopping,
                place=engine.place, wire=engine.wire,
            )  # fmt: skip
            record.on_stop = run.ask_to_stop
            engine.when_lost(run.ask_to_stop)
            result = run.watch()
        record.view = None
    ended = Ended(time.time(), result.exit_code, result.cause)
    record.end(ended)
    if config.run.report and not result.at_once:
        leave_report(directory, say)
    next_step = Task.of(config.run.task).next_step(run_dir)
    record.say_last(ending_lines(ended, result.run_dir, next_step))
    return result


def _view(config: Config, status: RunStatus) -> contextlib.AbstractContextManager[View]:
    """The live view on a terminal that can show one, else plain lines."""
    if config.run.live and can_draw(sys.stdout):
        from shared.console.live_view import LiveView

        return LiveView(status)
    from shared.console.plain_lines import PlainLines

    return contextlib.nullcontext(PlainLines(say_plainly, status))


def _num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _new_run_dir() -> str:
    return str(free_name(Path("runs") / time.strftime("%Y%m%d-%H%M%S")))


def check_data_folders(config: Config) -> None:
    """Whether what the flags name is there at all.

    Raises:
        InputError: it is not.
    """
    for flag, folder in (
        ("--train-data", config.data.train_data),
        ("--val-data", config.data.val_data),
    ):
        if folder is not None and not Path(folder).exists():
            raise InputError(f"{flag} {folder}: there is no such folder or metadata file.")


def _check_endpoint(config: Config) -> None:
    """Where the batches will flow, and the keys for it, before anything heavy starts."""
    if config.run.keys:
        from shared.stream.keys import load_client_keys, load_server_keys

        load_server_keys(config.run.keys)
        load_client_keys(config.run.keys)
    if config.run.endpoint:
        endpoint = check_endpoint(config.run.endpoint, has_keys=bool(config.run.keys))
        if not config.run.prepare_only:  # else it may be another host's
            for rank in range(config.data.num_model_replicas):
                refuse_if_taken(check_endpoint(endpoint_of_replica(endpoint, rank), has_keys=True))


def _announce(config: Config, placement: Placement) -> None:
    """The lines that users of two-GPU trainers know, where they are true."""
    model_gpu = placement.model_gpu
    if placement.multi_gpu and model_gpu is not None:
        say_plainly("🎯 Configuring Multi-GPU Mode...")
        gpus = ", ".join(str(gpu.index) for gpu in placement.data_gpus)
        say_plainly(f"   Data Processing GPU: {gpus}")
        trains = ", ".join(str(gpu.index) for gpu in placement.model_gpus if gpu)
        say_plainly(f"   Model Training GPU: {trains}")
        for gpu in placement.data_gpus:
            say_plainly(f"   data process: {_gpu_in_words(gpu)}")
        for gpu in filter(None, placement.model_gpus):
            say_plainly(f"   model process: {_gpu_in_words(gpu)}")
        say_plainly("✅ Multi-GPU configuration completed successfully")
    say_plainly(f"🚀 Intelligent GPU Pipeline: {placement.mode}")
    each = " for each model GPU" if len(placement.model_gpus) > 1 else ""
    say_plainly(f"   - Buffer Size: {config.data.pipeline_buffer_size}{each}")
    if not placement.multi_gpu:
        on = _gpu_in_words(model_gpu) if model_gpu else f"CPU; {_why_no_gpu(config)}"
        say_plainly("   data process: CPU")
        say_plainly(f"   model process: {on}")


def _why_no_gpu(config: Config) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or config.run.fake_gpus:
        return "no NVIDIA GPU was found (see nvidia-smi)"
    return f"CUDA_VISIBLE_DEVICES ({visible!r}) leaves no NVIDIA GPU"


def _gpu_in_words(gpu: Gpu) -> str:
    number = gpu.physical_index if gpu.physical_index >= 0 else gpu.visible_as
    return f"{gpu.name}, physical GPU {number} → /GPU:0"


def _prepared_in_words(prepared: Prepared) -> str:
    """What the preparation found, in a line or three."""
    cached = " before" if prepared.cached else f" in {prepared.seconds:.0f} s"
    details = f", {prepared.details}" if prepared.details else ""
    lines = [
        f"   {prepared.usable} {prepared.noun}{details}: {prepared.train} to train, "
        f"{prepared.validation} held out (looked at{cached})"
    ]
    if prepared.left_out:
        lines.append(
            f"⚠️  {prepared.left_out} rows are left out ({prepared.bad} bad, {prepared.filtered} "
            "filtered); quarantine.jsonl names each"
        )
        lines += [f"     {reason}" for reason in prepared.first_reasons]
        if prepared.left_out > len(prepared.first_reasons):
            lines.append(f"     and {prepared.left_out - len(prepared.first_reasons)} more")
    lines += [f"⚠️  {warning}" for warning in prepared.warnings]
    return "\n".join(lines)
