"""The codec: arrays arrive as they were sent, and nothing hostile gets further than ProtocolError."""

import dataclasses
import pickle

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import ProtocolError
from shared.stream import codec, messages
from shared.stream.array_block import ALIGNMENT_BYTES, ArrayBlock, offsets_of
from shared.stream.messages import Envelope

EVERY_MESSAGE = [
    messages.Hello("data_worker-0", 12, "index", "plan", "fake", "2.21.0", 8),
    messages.Hello("w", 1, "i", "p", "cpu", "2", 1, {"task": "ü", "numpy": "2.0", "": ""}),
    messages.BatchReady(7, 2, {"decode": 1.5}, 0.5, {"mel": np.ones((2, 3), np.float32)}),
    messages.CannotRead(7, 3, "café.wav: is gone"),
    messages.Goodbye("stopped"),
    messages.Welcome("data_worker-0"),
    messages.Refused("another run"),
    messages.Introduce(),
    messages.Exclude(1, [[3, 7], [4, 9], [5, 9, 10]]),
    messages.MakeBatch(2**53, 0),
    messages.StopProducing("finished"),
]

GENERATOR = np.random.default_rng(0)
GRID = GENERATOR.normal(size=(6, 5, 4)).astype(np.float32)
LAYOUTS = {
    "contiguous": GRID,
    "fortran order": np.asfortranarray(GRID),
    "transposed": GRID.T,
    "every other row": GRID[::2],
    "every other column": GRID[:, ::2, :],
    "reversed": GRID[::-1, :, ::-1],
    "a middle part": GRID[1:4, 1:3, 1:2],
    "repeated by a stride of zero": np.broadcast_to(GRID[0, 0], (3, 4)),
    "read-only": np.frombuffer(b"\0\1\2\3" * 6, np.float32),
    "0-d": np.array(2.5, np.float32),
    "0-d view": GRID[0, 0, 0],
    "empty": np.zeros(0, np.float32),
    "empty rows": np.zeros((0, 80), np.float32),
    "empty in the middle": np.zeros((3, 0, 2), np.int64),
    "one element": np.zeros((1, 1, 1, 1), np.int32),
    "four dimensions": np.arange(120, dtype=np.int16).reshape(2, 3, 4, 5),
    "bytes": np.arange(256, dtype=np.uint8),
    "half": GRID.astype(np.float16),
    "half, not contiguous": GRID.astype(np.float16)[:, 1::2],
    "NaN and infinity": np.array([np.nan, np.inf, -np.inf, -0.0], np.float32),
    "large": GENERATOR.integers(-(2**62), 2**62, 300_000),
    "unaligned": np.frombuffer(b"\0" + GRID.tobytes(), np.uint8)[1:].view(np.float32),
}


def frames_of(message, run="run", session="session", sequence=1):
    return [bytes(f) for f in codec.encode(Envelope(run, session, sequence, message))]


def header_of(message):
    return msgpack.unpackb(frames_of(message)[0])


def batch_frames(shape=(2,), dtype="<f4", frame=b"\0" * 64, **changes):
    """The frames of a BatchReady with one array, which may be a lie."""
    header = header_of(messages.BatchReady(0, 0, {}, 0.0, {}))
    header["arrays"] = [["a", dtype, shape if isinstance(shape, int) else list(shape)]]
    header.update(changes)
    header["arrays"] = msgpack.packb(header["arrays"])
    return [msgpack.packb(header), frame]


def padded(num_bytes):
    return b"\0" * offsets_of([num_bytes])[1]


def refused(frames):
    with pytest.raises(ProtocolError) as caught:
        codec.decode(frames)
    assert len(str(caught.value)) < 500
    return str(caught.value)


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda m: type(m).__name__)
def test_every_message_arrives_as_it_was_sent(message):
    envelope = codec.decode(frames_of(message, "r", "s", 3))
    assert (envelope.run, envelope.session, envelope.sequence) == ("r", "s", 3)
    assert type(envelope.message) is type(message)
    for field in dataclasses.fields(message):
        sent, arrived = getattr(message, field.name), getattr(envelope.message, field.name)
        if field.name == "arrays":
            assert list(arrived) == list(sent)
        else:
            assert arrived == sent


def test_every_kind_of_message_is_in_the_table_above():
    assert {type(message) for message in EVERY_MESSAGE} == set(codec._TAGS.values())


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_array_layout_arrives_intact(name):
    sent = LAYOUTS[name]
    frames = frames_of(messages.BatchReady(0, 0, {}, 0.0, {"a": sent, "b": sent}))
    arrived = codec.decode(frames).message.arrays
    for array in arrived.values():
        assert array.dtype == sent.dtype
        assert array.shape == sent.shape
        assert array.tobytes() == np.asarray(sent).tobytes()
        assert not array.flags.writeable


def test_the_layouts_arrive_intact_all_together():
    frames = frames_of(messages.BatchReady(0, 0, {}, 0.0, LAYOUTS))
    assert len(frames) == 2
    arrived = codec.decode(frames).message.arrays
    assert {name: array.tobytes() for name, array in arrived.items()} == {
        name: np.asarray(array).tobytes() for name, array in LAYOUTS.items()
    }


def test_a_block_of_arrays_is_handed_over_without_a_copy():
    arrays = ArrayBlock({"a": ("float32", (4, 4)), "b": ("int32", (3,))})
    _, frame = codec.encode(Envelope("", "", 0, messages.BatchReady(0, 0, {}, 0.0, arrays)))
    assert np.shares_memory(np.frombuffer(frame, np.uint8), arrays["a"])
    assert np.shares_memory(np.frombuffer(frame, np.uint8), arrays["b"])


def test_arrived_arrays_are_views_of_their_frame():
    arrays = {"a": np.ones(4, np.float32), "b": np.ones(3, np.int32)}
    frames = frames_of(messages.BatchReady(0, 0, {}, 0.0, arrays))
    for array in codec.decode(frames).message.arrays.values():
        assert np.shares_memory(array, np.frombuffer(frames[1], np.uint8))


def test_the_arrays_of_a_block_are_zero_aligned_and_apart():
    arrays = ArrayBlock({"a": ("uint8", (3,)), "b": ("float32", (2, 2)), "c": ("int16", ())})
    for number, array in enumerate(arrays.values()):
        assert not array.any()
        array[...] = number + 1
    assert [set(array.ravel().tolist()) for array in arrays.values()] == [{1}, {2}, {3}]
    assert len(arrays.block) == 3 * ALIGNMENT_BYTES
    with pytest.raises(TypeError, match="can't be replaced"):
        arrays["a"] = np.zeros(3, np.uint8)


NESTED = {depth: b"\x91" * depth + b"\x01" for depth in (900, 1000, 1023, 1025, 100_000)}


def with_raw_value(key, raw):
    """A header whose value for one key is these bytes."""
    header = header_of(messages.Introduce())
    packed = b"".join(
        msgpack.packb(name) + (raw if name == key else msgpack.packb(value))
        for name, value in header.items()
    )
    return bytes([0x80 + len(header)]) + packed


WIRE_ATTACKS = {
    "no frames": [],
    "10,000 frames": [b""] * 10_000,
    "an empty frame": [b""],
    "the last frame missing": batch_frames()[:1],
    "one frame too many": [*batch_frames(), b""],
    "a byte short": batch_frames(frame=b"\0" * 63),
    "a byte long": batch_frames(frame=b"\0" * 65),
    "without the padding": batch_frames(frame=b"\0" * 8),
    "a shape of one more": batch_frames(shape=[17]),
    "shape -1": batch_frames(shape=[-1]),
    "shape [2**32, 2**32]": batch_frames(shape=[2**32, 2**32], frame=b""),
    "shape [0, 2**40]": batch_frames(shape=[0, 2**40], frame=b""),
    "shape [0, 2**53, 2**53]": batch_frames(shape=[0, 2**53, 2**53], frame=b""),
    "shape of 5 dimensions": batch_frames(shape=[1, 1, 1, 1, 2]),
    "shape not a list": batch_frames(shape=2),
    "shape of fractions": batch_frames(shape=[2.0]),
    "shape of truths": batch_frames(shape=[True, 2]),
    "dtype O": batch_frames(dtype="O"),
    "dtype |O": batch_frames(dtype="|O8"),
    "dtype V": batch_frames(dtype="|V4"),
    "dtype of strings": batch_frames(dtype="<U1"),
    "dtype of dates": batch_frames(dtype="<M8[s]"),
    "sub-array dtype": batch_frames(shape=[1], dtype="(2,)<f4"),
    "record dtype": batch_frames(shape=[1], dtype="f4,f4"),
    "big-endian": batch_frames(dtype=">f4"),
    "dtype as a list": batch_frames(shape=[1], dtype=[["a", "<f4"]]),
    "two arrays of one name": batch_frames(
        arrays=[["a", "<f4", [2]], ["a", "<f4", [2]]], frame=b"\0" * 128),
    "a frame for each array": [
        *batch_frames(arrays=[["a", "<f4", [2]], ["b", "<f4", [2]]]), b"\0" * 64],
    "33 arrays": batch_frames(
        arrays=[[str(n), "<f4", [2]] for n in range(33)], frame=b"\0" * 33 * 64),
    "a frame that nothing describes": [*frames_of(messages.Introduce()), b""],
    "arrays described as none": batch_frames(arrays=[], frame=b""),
    "an array without a name": batch_frames(arrays=[["", "<f4", [2]]]),
    "an array with a long name": batch_frames(arrays=[["a" * 65, "<f4", [2]]]),
    "an array of nothing": batch_frames(arrays=[[]]),
    "arrays not a list": batch_frames(arrays={"a": "<f4"}),
    "arrays described in the open": [with_raw_value("arrays", msgpack.packb([]))],
    "arrays described by 9 KB": [with_raw_value("arrays", msgpack.packb(b"\x90" * 9000))],
    "arrays with an order": [
        with_raw_value("arrays", msgpack.packb(msgpack.packb([["a", "<f4", [0]]]))), b""],
    "nesting 900": [NESTED[900]],
    "nesting 1025": [NESTED[1025]],
    "nesting 100,000": [NESTED[100_000]],
    "ext type": [with_raw_value("run", msgpack.packb(msgpack.ExtType(5, b"x")))],
    "empty ext type": [with_raw_value("run", b"\xc7\x00\x05")],
    "timestamp": [with_raw_value("seq", msgpack.packb(msgpack.Timestamp(1)))],
    "integer keys": [msgpack.packb({1: 2})],
    "binary keys": [msgpack.packb({b"": 2})],
    "binary values": [with_raw_value("run", msgpack.packb(b"run", use_bin_type=True))],
    "a key too few": [msgpack.packb({"tag": "Introduce"})],
    "a key too many": [msgpack.packb({**header_of(messages.Introduce()), "more": 1})],
    "not a map": [msgpack.packb([1, 2, 3])],
    "half a header": [frames_of(messages.Introduce())[0][:-1]],
    "bytes after the header": [frames_of(messages.Introduce())[0] + b"\0"],
    "a string that claims 4 GiB": [b"\xdb\xff\xff\xff\xff"],
    "an array that claims 4 Gi": [b"\xdd\xff\xff\xff\xff"],
    "a map that claims 4 Gi": [b"\xdf\xff\xff\xff\xff"],
    "a header of 300 KB": [b"\0" * 300_000],
    "not UTF-8": [with_raw_value("run", b"\xa1\xff")],
    "a run of 5,000 letters": [with_raw_value("run", msgpack.packb("x" * 5000))],
    "an unknown tag": [with_raw_value("tag", msgpack.packb("Object"))],
    "a tag that is a list": [with_raw_value("tag", msgpack.packb([]))],
    "another version": [with_raw_value("v", msgpack.packb(99))],
    "a version that is text": [with_raw_value("v", msgpack.packb("1"))],
    "a negative sequence": [with_raw_value("seq", msgpack.packb(-1))],
    "a sequence of 2**63": [with_raw_value("seq", msgpack.packb(2**63))],
    "credit 2**63": [msgpack.packb({**header_of(messages.Hello("", 0, "", "", "", "", 1)), "fields":
                                    {**header_of(messages.Hello("", 0, "", "", "", "", 1))["fields"],
                                     "capacity": 2**63}})],
    "fields not a map": [with_raw_value("fields", msgpack.packb([]))],
    "a field too many": [with_raw_value("fields", msgpack.packb({"more": 1}))],
    "pickle": [pickle.dumps(np.zeros(3))],
    "pickle as an array": batch_frames(dtype="O", frame=pickle.dumps([1])),
    "raw HTTP": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("name", WIRE_ATTACKS)
def test_a_hostile_message_is_refused(name):
    refused(WIRE_ATTACKS[name])


@pytest.mark.parametrize(
    "depth", [depth for depth in NESTED if depth < codec.MAX_DESCRIPTION_BYTES]
)
def test_deep_nesting_in_the_description_of_arrays_is_refused(depth):
    refused([with_raw_value("arrays", msgpack.packb(NESTED[depth]))])


@pytest.mark.parametrize("depth", NESTED)
@pytest.mark.parametrize("key", ["tag", "v", "run", "session", "seq", "fields", "arrays"])
def test_deep_nesting_is_refused_wherever_it_is(key, depth):
    refused([with_raw_value(key, NESTED[depth])])


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (EVERY_MESSAGE[1], "busy", float("nan")),
        (EVERY_MESSAGE[1], "busy", float("inf")),
        (EVERY_MESSAGE[1], "busy", True),
        (EVERY_MESSAGE[1], "busy", 10**18),
        (EVERY_MESSAGE[1], "batch", -1),
        (EVERY_MESSAGE[1], "batch", 2**53 + 1),
        (EVERY_MESSAGE[1], "batch", 1.0),
        (EVERY_MESSAGE[1], "timings_ms", {"a": "b"}),
        (EVERY_MESSAGE[1], "timings_ms", {str(n): 1.0 for n in range(33)}),
        (EVERY_MESSAGE[1], "timings_ms", [1.0]),
        (EVERY_MESSAGE[0], "worker", 3),
        (EVERY_MESSAGE[0], "capacity", None),
        (EVERY_MESSAGE[7], "entries", [[1]]),
        (EVERY_MESSAGE[7], "entries", [[1, -2]]),
        (EVERY_MESSAGE[7], "entries", [1, 2]),
        (EVERY_MESSAGE[7], "entries", {"1": 2}),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(message, field, value):
    header, *frames = frames_of(message)
    header = msgpack.unpackb(header)
    header["fields"][field] = value
    refused([msgpack.packb(header), *frames])


def test_layouts_that_a_peer_invents_do_not_fill_the_memory():
    for length in range(500):
        codec.decode(batch_frames(shape=[length], dtype="|u1", frame=padded(length)))
    assert codec._block_described.cache_info().currsize <= 64


def test_another_version_is_told_how_to_mend_it():
    found = refused([with_raw_value("v", msgpack.packb(99))])
    speaks = f"this side speaks {messages.PROTOCOL_VERSION}"
    assert found.startswith(f"protocol version 99; {speaks}. Install the same version")


def test_a_block_in_shared_memory_is_told_and_not_sent():
    arrays = ArrayBlock({"mel": ("<f4", (2, 3))})
    arrays["mel"][...] = 7
    envelope = Envelope("run", "s", 1, messages.BatchReady(0, 0, {}, 0.0, arrays))
    (header,) = codec.encode(envelope, lambda block: 4096)
    asked = []

    def block_at(place, num_bytes):
        asked.append((place, num_bytes))
        return arrays.block

    found = codec.decode([header], block_at).message.arrays["mel"]
    np.testing.assert_array_equal(found, np.full((2, 3), 7, np.float32))
    assert not found.flags.writeable
    assert asked == [(4096, len(arrays.block))]
    assert codec.decode([header]).message.arrays == {}
    with pytest.raises(ProtocolError, match="1 frames of arrays; expected 0"):
        codec.decode([header, bytes(arrays.block)], block_at)
    with pytest.raises(ProtocolError, match="the header describes 64"):
        codec.decode([header], lambda place, num_bytes: np.zeros(63, np.uint8))


def only_protocol_errors(frames):
    try:
        envelope = codec.decode(frames)
    except ProtocolError:
        return
    assert isinstance(envelope, Envelope)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5))
@example([b"\xc1"])
def test_random_bytes_never_raise_anything_but_protocol_errors(frames):
    only_protocol_errors(frames)


def lists_and_maps_of(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(max_size=5),
    lists_and_maps_of,
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EVERY_MESSAGE), st.data())
def test_a_valid_message_with_one_value_replaced_never_raises_anything_else(message, data):
    header, *frames = frames_of(message)
    header = msgpack.unpackb(header)
    key = data.draw(st.sampled_from(sorted(header)))
    if isinstance(header[key], dict) and header[key] and data.draw(st.booleans()):
        header[key][data.draw(st.sampled_from(sorted(header[key])))] = data.draw(json_like)
    else:
        header[key] = data.draw(json_like)
    only_protocol_errors([msgpack.packb(header), *frames])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EVERY_MESSAGE), st.data())
def test_a_valid_message_with_damaged_bytes_never_raises_anything_else(message, data):
    frames = frames_of(message)
    number = data.draw(st.integers(0, len(frames) - 1))
    frame = bytearray(frames[number])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(frame) - 1))
        frame[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    frames[number] = bytes(frame) if data.draw(st.booleans()) else bytes(frame[:cut])
    only_protocol_errors(frames)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-2, 2**53), max_size=6),
    st.sampled_from([*codec.DTYPES, "O", ">f4", "<f8", "(2,)<f4"]),
    st.integers(0, 64),
)
def test_any_claimed_shape_is_either_exactly_right_or_refused(shape, dtype, length):
    frames = batch_frames(shape=shape, dtype=dtype, frame=padded(length))
    try:
        array = codec.decode(frames).message.arrays["a"]
    except ProtocolError:
        return
    assert len(padded(array.nbytes)) == len(padded(length))
    assert list(array.shape) == shape
