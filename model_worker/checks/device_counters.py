"""What a GPU counts of itself while something runs on it: its kernels, its copies, how long it was busy.

TensorFlow's profiler asks the driver (CUPTI), which tells every kernel with its beginning and its end.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

_STREAM = "Stream #"  # how the lines begin that hold what the device did
_TO_HOST, _TO_DEVICE = "MemcpyD2H", "MemcpyH2D"
_PS_PER_MS = 1e9


def counted(work: Callable[[], object], num_steps: int) -> dict[str, float]:
    """Of one of the steps that `work` does, all done when it returns; empty where nobody counts."""
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=0, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory(prefix="tandem-profile-") as folder:
        try:
            tf.profiler.experimental.start(folder, options=options)
        except tf.errors.OpError:  # another profiler is at work
            work()
            return {}
        try:
            work()
        finally:
            with contextlib.suppress(tf.errors.OpError):
                tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        for path in Path(folder).rglob("*.xplane.pb"):
            space.MergeFromString(path.read_bytes())
    return of_one_step(space, num_steps)


def of_one_step(space: xplane_pb2.XSpace, num_steps: int) -> dict[str, float]:
    """Kernels, copies, and the time in which the device did something, of what the profiler wrote."""
    spans: list[tuple[int, int]] = []
    names: list[str] = []
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU:"):
            continue
        for line in plane.lines:
            if not line.name.startswith(_STREAM):
                continue
            for event in line.events:
                begun = line.timestamp_ns * 1000 + event.offset_ps
                spans.append((begun, begun + event.duration_ps))
                names.append(plane.event_metadata[event.metadata_id].name)
    if not spans:
        return {}
    to_host = sum(name.startswith(_TO_HOST) for name in names)
    to_device = sum(name.startswith(_TO_DEVICE) for name in names)
    busy_ps = _covered(spans)
    whole_ps = max(end for _, end in spans) - min(begun for begun, _ in spans)
    kernels = sum(not name.startswith(("Memcpy", "Memset")) for name in names)
    return {
        "kernels": round(kernels / num_steps, 1),
        "copies_to_host": round(to_host / num_steps, 1),
        "copies_to_device": round(to_device / num_steps, 1),
        "busy_ms": round(busy_ps / num_steps / _PS_PER_MS, 3),
        "busy_share": round(busy_ps / whole_ps, 4) if whole_ps else 0.0,
    }


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of all spans together, counting once where they lie over one another."""
    covered = until = 0
    for begun, end in sorted(spans):
        covered += max(0, end - max(begun, until))
        until = max(until, end)
    return covered
