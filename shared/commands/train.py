"""The main command: resolve everything, prepare the data, run the two sides."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path

from shared.commands.report import leave_report
from shared.config.flags import resolve_config, train_parser
from shared.config.settings import Config
from shared.config.toml_file import write_config
from shared.console.progress_line import can_rewrite
from shared.devices.gpus import Gpu, Placement, list_gpus, place
from shared.errors import InputError
from shared.launching.preparation_child import prepare_run
from shared.launching.supervisor import EXIT_INTERRUPTED
from shared.launching.training_run import RunResult, TrainingRun, say_plainly
from shared.run.directory import RunDirectory, free_name
from shared.run.environment import write_environment
from shared.run.resume import (
    can_go_on,
    check_init_from,
    run_id_in,
    start_over,
    with_absolute_paths,
)
from shared.stream.endpoints import check_endpoint, refuse_if_taken, remove_stale_sockets

_UNSPOKEN_SHOWN = 20


def main(arguments: list[str], commands: dict[str, str], started_s: float) -> int:
    """Parse the flags, run, and say how it ended; a stop during the preparation is an interrupt."""
    epilog = "other commands:\n" + "\n".join(f"  {n:12} {w}" for n, w in commands.items())
    parser = train_parser("launcher.py", epilog)
    if not arguments:
        parser.print_usage()
        raise InputError("no --train-data was given. Try --help.")
    config = resolve_config(parser.parse_all(arguments))
    try:
        return run(config, started_s).exit_code
    except KeyboardInterrupt:
        say_plainly("⏹  Interrupted before training began; the same command starts it again")
        return EXIT_INTERRUPTED


def run(config: Config, started_s: float) -> RunResult:
    """One training run, from its configuration to its end."""
    placement = place(config.data, list_gpus(config.run.fake_gpus))
    if not config.data.train_data:
        raise InputError("no --train-data was given: name the folder that holds the speech.")
    check_data_folders(config)
    _check_endpoint(config)
    run_dir = config.run.run_dir or _new_run_dir()
    directory = RunDirectory(run_dir)
    config = with_absolute_paths(config)
    goes_on = not config.run.fresh and can_go_on(directory, config)
    if not goes_on:  # a run that has begun does not need the other one any more
        check_init_from(config)
        _check_language(config)
    _announce(config, placement)
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
    say = _LoggedSay(directory)
    write_config(config, directory.config)
    if goes_on:
        say(f"📂 Going on with {run_dir}; its data was looked at when it began")
    else:
        say(f"📂 Looking at {config.data.train_data}")
        say(_summary_in_words(prepare_run(directory, say, config.run.live), config))
    write_environment(directory, placement)
    if config.run.prepare_only:
        say(f"✅ Prepared {run_dir}; start the workers with:")
        say(f"   python -m model_worker --run {run_dir}")
        say(f"   python -m data_worker --run {run_dir}")
        return RunResult(0, "prepared", run_dir, 0)
    say(f"📁 Run directory: {run_dir}")
    with _view(config, directory, placement, started_s) as view:
        say.show = view.say
        result = TrainingRun(config, directory, placement, say, started_s, view.report).watch()
    say.show = say_plainly
    if config.run.report and not result.at_once:
        leave_report(directory, _ending_in_words(result), say)
    say(_ending_in_words(result))
    return result


def _view(config: Config, directory: RunDirectory, placement: Placement, started_s: float):
    """The live view on a terminal that can show one, else plain lines."""
    left_out = _num_lines(directory.quarantine)
    is_terminal = config.run.live and can_rewrite(sys.stdout)
    if not is_terminal or (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8"):
        from shared.console.plain_lines import PlainLines

        return contextlib.nullcontext(PlainLines(say_plainly, left_out))
    from shared.console.live_view import LiveView

    return LiveView(
        config.data.pipeline_buffer_size,
        started_s,
        data_device="GPU" if placement.data_gpus else "CPU",
        model_device="GPU" if placement.model_gpu else "CPU",
        left_out=left_out,
    )


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


def _check_language(config: Config) -> None:
    """Before there is a run directory, which another language would not fit."""
    from shared.speech.text.frontend import make_frontend

    make_frontend(config.data.text_frontend, config.data.language)


def _check_endpoint(config: Config) -> None:
    """Where the batches will flow, and the keys for it, before anything heavy starts."""
    if config.run.keys:
        from shared.stream.keys import load_client_keys, load_server_keys

        load_server_keys(config.run.keys)
        load_client_keys(config.run.keys)
    if config.run.endpoint:
        endpoint = check_endpoint(config.run.endpoint, has_keys=bool(config.run.keys))
        if not config.run.prepare_only:  # else it may be another host's
            refuse_if_taken(endpoint)


def _announce(config: Config, placement: Placement) -> None:
    """The lines that users of two-GPU trainers know, where they are true."""
    if placement.multi_gpu:
        say_plainly("🎯 Configuring Multi-GPU Mode...")
        gpus = ", ".join(str(gpu.index) for gpu in placement.data_gpus)
        say_plainly(f"   Data Processing GPU: {gpus}")
        say_plainly(f"   Model Training GPU: {placement.model_gpu.index}")
        for gpu in placement.data_gpus:
            say_plainly(f"   data process: {_place_in_words(gpu)}")
        say_plainly(f"   model process: {_place_in_words(placement.model_gpu)}")
        say_plainly("✅ Multi-GPU configuration completed successfully")
    say_plainly(f"🚀 Intelligent GPU Pipeline: {placement.mode}")
    say_plainly(f"   - Buffer Size: {config.data.pipeline_buffer_size}")
    if not placement.multi_gpu:
        gpu = placement.model_gpu
        on = _place_in_words(gpu) if gpu else "CPU; no NVIDIA GPU was found (see nvidia-smi)"
        say_plainly("   data process: CPU")
        say_plainly(f"   model process: {on}")


def _place_in_words(gpu: Gpu) -> str:
    number = gpu.physical_index if gpu.physical_index >= 0 else gpu.visible_as
    return f"{gpu.name}, physical GPU {number} → /GPU:0"


def _summary_in_words(summary: dict, config: Config) -> str:
    """What the preparation found, in a line or three."""
    cached = ", known from before" if summary["cached"] else f" in {summary['seconds']:.0f} s"
    lines = [
        f"   {summary['usable']} utterances, {summary['hours']:.2f} hours, "
        f"{summary['speakers']} speaker{'s' * (summary['speakers'] != 1)}: "
        f"{summary['train']} to train, "
        f"{summary['validation']} held out (looked at{cached})"
    ]
    left_out = summary["bad"] + summary["filtered"]
    if left_out:
        lines.append(
            f"⚠️  {left_out} rows are left out ({summary['bad']} bad, {summary['filtered']} "
            "filtered); quarantine.jsonl names each"
        )
        lines += [f"     {reason}" for reason in summary["first_reasons"]]
        if left_out > len(summary["first_reasons"]):
            lines.append(f"     and {left_out - len(summary['first_reasons'])} more")
    if summary["unspoken"]:
        named = "  ".join(summary["unspoken"][:_UNSPOKEN_SHOWN])
        more = len(summary["unspoken"]) - _UNSPOKEN_SHOWN
        lines.append(
            f"⚠️  Characters without a sound are passed over: {named}"
            + (f"  and {more} more" if more > 0 else "")
        )
    if summary["verify"] == "headers" and config.data.trim_silence:
        lines.append(
            "⚠️  Only headers were looked at, so silence at the ends is not cut. --verify decode "
            "finds it"
        )
    return "\n".join(lines)


def _ending_in_words(result: RunResult) -> str:
    if result.exit_code == 0:
        return (
            f"🏁 Finished. Everything is in {result.run_dir}\n   Speak: python launcher.py speak "
            f'--run {result.run_dir} --text "Hello there." --out hello.wav'
        )
    if result.exit_code == 130:
        cause = f"{result.cause[0].upper()}{result.cause[1:]}"
        return f"⏹  {cause}. The same command with --run-dir {result.run_dir} goes on from there"
    return f"❌ {result.cause}\n   Logs: {result.run_dir}"


class _LoggedSay:
    """Lines to the terminal and to launcher.log."""

    def __init__(self, directory: RunDirectory):
        self._log = open(directory.launcher_log, "a", encoding="utf-8")  # noqa: SIM115
        self.show = say_plainly

    def __call__(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk is no reason to end a run
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._log.flush()
        self.show(text)
