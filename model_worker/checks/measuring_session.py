"""A training session for measurements: its parts, made as a run makes them, without its loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from model_worker.model_process import Session
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.training.step import TrainStep
from shared.config.settings import Config
from shared.plan.index import Index
from shared.task import BatchShape


class MeasuringSession(Session):
    """Step, stream and figures of a run."""

    @property
    def device(self) -> str:
        """Where TensorFlow has the model."""
        return self._device

    @property
    def precision(self) -> str:
        """The numbers that the model computes in."""
        return self._precision.name

    @property
    def config(self) -> Config:
        return self._config

    @property
    def index(self) -> Index:
        return self._index

    @property
    def unit(self) -> str:
        return self._task.unit

    @property
    def busy_share(self) -> float | None:
        """Of the device, over the last window that has ended."""
        return self._busy.share

    def has_new_share(self) -> bool:
        return self._busy.sample()

    def make_step(self) -> TrainStep:
        self._seed()
        with tf.device(self._device):
            step = self._make_step(self._build_model())
        step.warm_up()
        return step

    def likely_batch(self, shape: BatchShape) -> dict[str, tf.Tensor]:
        """A batch of this shape on the device, with numbers as they may come."""
        arrays = self._task.likely(self._index, shape.arrays())
        with tf.device(self._device):
            return {name: tf.identity(tf.constant(array)) for name, array in arrays.items()}

    def most_allocated(self) -> int | None:
        """Bytes of the device that TensorFlow has held at most; None where nobody says, as of a CPU."""
        if not self._device.startswith("/GPU"):
            return None
        return int(tf.config.experimental.get_memory_info(self._device[1:])["peak"])

    @contextlib.contextmanager
    def stream(self) -> Iterator[tuple[Receiver, DevicePrefetch]]:
        """The batches of the run from the first on, on the device, and their receiver."""
        end = self._plan.layout.num_stream_batches
        receiver = self._make_receiver(0, end, self._known_exclusions(None))
        receiver.start()
        prefetch = DevicePrefetch(receiver.queue, self._device, self._task.amount)
        try:
            yield receiver, prefetch
        finally:
            prefetch.close()
            receiver.stop("")  # the data process stays, warm, for the next measurement
