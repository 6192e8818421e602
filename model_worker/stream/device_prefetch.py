"""Copies batches to the device ahead of the step that needs them."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from model_worker.stream.batch_queue import BatchQueue, ReceivedBatch
from shared.devices.cores import free_this_thread
from shared.diagnosis.wait_attribution import BatchLife, Made
from shared.plan.plan import FILLER
from shared.stream.array_block import digest_of
from shared.task.batch import ROWS
from shared.task.model_side import Amount

_AHEAD = 2
_STEP_BEGINS_S = 0.002


@dataclasses.dataclass(frozen=True)
class DeviceBatch:
    """A batch whose tensors are on the device."""

    received: ReceivedBatch
    tensors: dict[str, tf.Tensor]
    rows: list[int]  # of the index; fillers are none
    amount: Amount
    sha256: str  # of its arrays, when asked for
    copy_ms: float
    idle_ms: float  # the copying thread, before the batch was there

    def life(self, waited_ms: float) -> BatchLife:
        """How the batch came, for a loop that has just got it after waiting so long."""
        received = self.received
        return BatchLife(
            waited=waited_ms,
            ticket_age=(time.monotonic() - received.asked_s) * 1000,
            round_trip=(received.received_s - received.asked_s) * 1000,
            copier_idle=self.idle_ms,
            made=Made.from_timings(received.timings_ms),
        )


class DevicePrefetch:
    """A thread between the ordered queue and the training loop.

    What the log wants to know of a batch is looked at here too: the loop has no time to spare.
    """

    def __init__(
        self,
        source: BatchQueue,
        device: str,
        amount_of: Callable[[Mapping[str, np.ndarray]], Amount],
        hash_arrays: bool = False,
    ):
        self._source = source
        self._device = device
        self._amount_of = amount_of
        self._hash_arrays = hash_arrays
        self._ready: queue.Queue[DeviceBatch | BaseException] = queue.Queue(_AHEAD)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="device-prefetch", daemon=True)
        self._thread.start()

    def get(self, timeout_s: float) -> DeviceBatch | None:
        """The next batch in order, or None when it has not come in time.

        Raises:
            StreamEnded: there will be none.
        """
        try:
            item = self._ready.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        self._closed = True

    def _run(self) -> None:
        free_this_thread()
        try:
            while not self._closed:
                free_s = time.perf_counter()
                received = self._source.get()
                self._let_the_loop_go_first()
                self._put(self._copy(received, (time.perf_counter() - free_s) * 1000))
        except BaseException as ended:
            self._put(ended)

    def _let_the_loop_go_first(self) -> None:
        """The loop has just taken a batch: until its step is under way, it needs the interpreter.

        With another batch ready there is time to wait that long.
        """
        if not self._ready.empty():
            time.sleep(_STEP_BEGINS_S)

    def _put(self, item: DeviceBatch | BaseException) -> None:
        while not self._closed:
            try:
                self._ready.put(item, timeout=0.5)
            except queue.Full:
                continue
            return

    def _copy(self, received: ReceivedBatch, idle_ms: float) -> DeviceBatch:
        started_s = time.perf_counter()
        with tf.device(self._device):
            tensors = {
                name: _on_device(tf.convert_to_tensor(array), self._device)
                for name, array in received.arrays.items()
            }
        copy_ms = (time.perf_counter() - started_s) * 1000
        return DeviceBatch(
            received,
            tensors,
            rows=[row for row in received.arrays[ROWS].tolist() if row != FILLER],
            amount=self._amount_of(received.arrays),
            sha256=digest_of(received.arrays) if self._hash_arrays else "",
            copy_ms=copy_ms,
            idle_ms=idle_ms,
        )


def _on_device(tensor: tf.Tensor, device: str) -> tf.Tensor:
    """Small integers come into being on the host, whatever device was asked for."""
    return tensor if tensor.device.endswith(device[1:]) else tf.identity(tensor)
