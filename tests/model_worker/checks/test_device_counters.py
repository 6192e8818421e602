"""What a profiler wrote of a GPU, as figures of one step."""

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from model_worker.checks.device_counters import counted, of_one_step

MS = 10**9  # in picoseconds


def space_of(*lines):
    """Of one GPU, from (name of the line, [(kernel, begun in ms, milliseconds)])."""
    space = xplane_pb2.XSpace()
    host, plane = space.planes.add(name="/host:CPU"), space.planes.add(name="/device:GPU:0")
    host.lines.add(name=f"{'Stream #'}9").events.add(offset_ps=0, duration_ps=900 * MS)
    names = sorted({name for _, events in lines for name, *_ in events})
    for number, name in enumerate(names):
        plane.event_metadata[number].name = name
    for line_name, events in lines:
        line = plane.lines.add(name=line_name, timestamp_ns=5_000_000)
        for name, begun_ms, ms in events:
            line.events.add(
                metadata_id=names.index(name),
                offset_ps=int(begun_ms * MS),
                duration_ps=int(ms * MS),
            )
    return space


def test_kernels_copies_and_the_time_that_any_stream_was_busy_are_counted():
    space = space_of(
        ("Stream #13(Compute)", [("gemm", 0, 2), ("gemm", 1, 2), ("add", 8, 2)]),
        ("Stream #14(MemcpyD2H)", [("MemcpyD2H", 2, 2), ("MemcpyH2D", 9, 0.5), ("Memset", 9.5, 0.25)]),
        ("XLA Ops", [("gemm", 0, 10)]),
    )  # fmt: skip
    assert of_one_step(space, 2) == {
        "kernels": 1.5, "copies_to_host": 0.5, "copies_to_device": 0.5,
        "busy_ms": 3.0, "busy_share": 0.6,
    }  # fmt: skip


def test_where_no_gpu_was_watched_nothing_is_claimed():
    assert of_one_step(xplane_pb2.XSpace(), 5) == {}


def test_a_step_without_a_gpu_is_done_and_counts_nothing():
    done = []
    assert counted(lambda: done.append(tf.matmul([[1.0]], [[2.0]]).numpy()), 1) == {}
    assert len(done) == 1
