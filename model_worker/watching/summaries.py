"""TensorBoard: the run's numbers, pictures, sounds and hyper-parameters under tidy names."""

from __future__ import annotations

import dataclasses
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import numpy as np
import tensorflow as tf

from shared.config.settings import Config
from shared.config.toml_file import dump_config
from shared.devices.cores import free_this_thread
from shared.task.model_side import Shown

log = logging.getLogger(__name__)

_FLUSHED_WITHIN_S = 10.0

_PIPELINE = (
    "step_ms", "data_wait_ms", "queue_depth", "padding_fraction", "amount_per_s", "readers",
    "cores_busy", "idle_share", "exchange_ms",
)  # fmt: skip
_DEVICES = ("data_gpu_busy", "model_gpu_busy", "model_gpu_memory_mb")
_NOT_SHOWN = ("step", "time")
_SECTIONS_SHOWN = ("data", "task", "model", "training")


_Arguments = ParamSpec("_Arguments")


def _never_fails(
    method: Callable[Concatenate[Summaries, _Arguments], None],
) -> Callable[Concatenate[Summaries, _Arguments], None]:
    """A training run does not end because its pictures can't be written."""

    def careful(self: Summaries, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> None:
        if self._gave_up:
            return
        try:
            method(self, *arguments, **named)
        except Exception:
            self._gave_up = True
            log.exception("TensorBoard can't be written to; the run goes on without it")
            self._say(
                "⚠️  TensorBoard can't be written to; the run goes on without it (see "
                "model_worker.log)"
            )

    return careful


class Summaries:
    """Writes event files into one folder; safe to use from several threads.

    Numbers are written by a thread of its own, so that the training loop does not wait for it.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        done_steps: int = 0,
        say: Callable[[str], None] = lambda text: None,
    ):
        """`done_steps`: those of the checkpoint; what came after them is about to happen again.

        `say` is told once if it can't be written.
        """
        self._say = say
        self._folder = folder
        self._config = config
        self._done_steps = done_steps
        self._writer: tf.summary.SummaryWriter | None = None
        self._gave_up = False
        self._writer_lock = threading.Lock()
        # Records, and events to be set when all before them is written.
        self._waiting: queue.SimpleQueue[dict[str, Any] | threading.Event | None]
        self._waiting = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def numbers(self, record: dict[str, Any]) -> None:
        """One logged step: a record as in metrics.jsonl, which must not change any more."""
        self._hand_over(record)

    def _hand_over(self, waiting: dict[str, Any] | threading.Event) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)
            self._thread.start()
        self._waiting.put(waiting)

    def _run(self) -> None:
        free_this_thread()
        while (waiting := self._waiting.get()) is not None:
            if isinstance(waiting, threading.Event):
                self._flush_writer()
                waiting.set()
            else:
                self._write_numbers(waiting)
        self._close_writer()

    @_never_fails
    def _write_numbers(self, record: dict[str, Any]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.scalar.summary import scalar_pb

        # All of them in one operation: one each would cost a step's time on a fast GPU.
        together = Summary()
        for name, value in tidy_names(record):
            together.value.extend(scalar_pb(name, value).value)
        step = tf.constant(record["step"], tf.int64)
        with self._default_writer():
            tf.summary.experimental.write_raw_pb(together.SerializeToString(), step=step)

    @_never_fails
    def show(self, step: int, shown: Shown) -> None:
        """A sound or a picture of a step, or both."""
        with self._default_writer():
            if shown.sound is not None:
                samples = shown.sound[np.newaxis, :, np.newaxis].astype(np.float32)
                tf.summary.audio(shown.name, samples, shown.sample_rate, step=step)
            if shown.picture is not None:
                picture = shown.picture[np.newaxis, :, :, :3]
                tf.summary.image(shown.name, picture, step=step)

    def flush(self, patience_s: float | None = None) -> None:
        """Have everything so far written, or as much of it as storage takes in this time."""
        written = threading.Event()
        self._hand_over(written)
        written.wait(_FLUSHED_WITHIN_S if patience_s is None else patience_s)

    def close(self, patience_s: float | None = None) -> None:
        """The same, and no more is to come."""
        self.flush(patience_s)
        self._waiting.put(None)

    @_never_fails
    def _flush_writer(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    @_never_fails
    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _default_writer(self) -> AbstractContextManager[tf.summary.SummaryWriter]:
        with self._writer_lock:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(str(self._folder))
                self._take_back_later_steps(self._writer)
                with self._writer.as_default():
                    self._write_settings()
        return self._writer.as_default()

    def _take_back_later_steps(self, writer: tf.summary.SummaryWriter) -> None:
        """Tell TensorBoard to forget steps after the checkpoint, or they would be shown twice.

        It takes the first such word of a run for its beginning, so the first session says it too.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        begins = Event(wall_time=time.time(), step=self._done_steps + 1,
                       session_log=SessionLog(status=SessionLog.START))  # fmt: skip
        # What a writer writes are summaries; this is the one other thing that must be in its file.
        tf.raw_ops.ImportEvent(writer=writer._resource, event=begins.SerializeToString())

    def _write_settings(self) -> None:
        from tensorboard.plugins.hparams import api

        settings = {
            f"{section}/{name}": value if isinstance(value, (bool, int, float, str)) else str(value)
            for section in _SECTIONS_SHOWN
            for name, value in dataclasses.asdict(getattr(self._config, section)).items()
        }
        api.hparams(settings)
        text = "".join(f"    {line}\n" for line in dump_config(self._config).splitlines())
        tf.summary.text("configuration", text, step=self._done_steps)


def tidy_names(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a metrics record, each under the heading where TensorBoard shows it."""
    for name, value in record.items():
        if name in _NOT_SHOWN:
            continue
        if name == "other_replicas":
            for place, told in enumerate(value, 1):
                found = tidy_names(told)
                yield from ((f"replica {place}/{part.split('/')[-1]}", n) for part, n in found)
            continue
        if isinstance(value, dict):
            for part, number in value.items():
                yield f"{'pipeline' if part in _PIPELINE else name}/{part}", float(number)
            continue
        if isinstance(value, list):
            value = float(np.mean(value)) if value else None
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            continue
        if name.startswith("val_"):
            yield f"validation/{name.removeprefix('val_')}", float(value)
        else:
            heading = (
                "pipeline" if name in _PIPELINE else "devices" if name in _DEVICES else "training"
            )
            yield f"{heading}/{name}", float(value)
