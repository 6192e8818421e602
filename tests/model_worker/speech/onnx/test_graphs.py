"""A voice as ONNX says what it says in TensorFlow."""

import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx_voice import BASIS, TABLE, small_generator, small_model, vectors_of

from model_worker.speech.onnx import graphs
from model_worker.speech.onnx.conversion import MOST_APART, OPSET, apart, converted, session_of
from model_worker.speech.onnx.half_precision import with_half_weights
from model_worker.speech.onnx.piper_convention import phoneme_map
from shared.speech.mel import log_mel

SYMBOLS = np.array([[1, 5, 6, 7, 8, 2], [1, 9, 2, 0, 0, 0]])
SPEEDS = np.array([[0.5, 1, 2, 1, 0.5, 1], [1, 1, 1, 1, 1, 1]], np.float32)
RECORDING = np.random.default_rng(2).normal(0, 0.1, 60_000).astype(np.float32)
KNOWN = phoneme_map(TABLE)


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def generator():
    return small_generator()


def numbers_of(text: str, table: dict[str, int], between: int | None = 0) -> np.ndarray:
    """As Piper makes them: code points with padding between."""
    found = [1, *(table[character] for character in text), 2]
    if between is None:
        return np.array([found])
    return np.array([[n for each in found for n in (each, between)][:-1]])


def piper_asks(numbers: np.ndarray, length_scale: float = 1.0, sid: int | None = 0) -> dict:
    asked = {
        "input": numbers, "input_lengths": np.array([numbers.shape[1]]),
        "scales": np.array([0.667, length_scale, 0.8], np.float32),
    }  # fmt: skip
    return asked if sid is None else asked | {"sid": np.array([sid])}


def assert_alike(graph, given):
    made = converted(graph)
    onnx.checker.check_model(made)
    assert [(each.domain, each.version) for each in made.opset_import if not each.domain] == [
        ("", OPSET)
    ]
    distance, found = apart(graph, made, given)
    assert distance <= MOST_APART
    return made, found


def test_text_to_mel_is_the_same_for_a_batch(model):
    given = {
        "symbols": SYMBOLS, "symbol_lengths": np.array([6, 3]), "voice": vectors_of(model, 2),
        "speed": SPEEDS, "pitch_shift": 2 * SPEEDS,
    }  # fmt: skip
    _, found = assert_alike(graphs.text_to_mel(model), given)
    assert found["mel"].shape[2] == 80 and found["mel"].shape[1] % 2 == 0
    np.testing.assert_array_equal(found["durations"].sum(axis=1), found["mel_lengths"])


def test_the_reference_encoder_hears_what_training_heard(model):
    graph = graphs.reference_encoder(model, BASIS, normalise=False)
    made, found = assert_alike(graph, {"recording": RECORDING})
    mel = log_mel(RECORDING, BASIS)
    start = (len(mel) - 192) // 2
    expected = model.voice_of(mel[np.newaxis, start : start + 192]).numpy()
    np.testing.assert_allclose(found["voice"], expected, atol=1e-3)
    for num_samples in (1024, 10_000, 191 * 256, 192 * 256, 193 * 256):
        assert apart(graph, made, {"recording": RECORDING[:num_samples]})[0] <= MOST_APART


def test_the_vocoder_is_the_same_at_any_length(generator):
    graph = graphs.vocoder(generator)
    made, session = converted(graph), None
    for num_frames in (2, 31, 300):
        mel = np.random.default_rng(5).normal(-5, 2, (1, num_frames, 80)).astype(np.float32)
        assert apart(graph, made, {"mel": mel})[0] <= MOST_APART
        session = session or session_of(made)
        assert session.run(None, {"mel": mel})[0].shape == (1, 256 * num_frames)


@pytest.fixture(scope="module")
def whole(model, generator):
    graph = graphs.piper_voice(model, generator, vectors_of(model, 2), KNOWN, len(TABLE))
    asked = piper_asks(numbers_of("hello", KNOWN.ids))
    made, found = assert_alike(graph, asked)
    assert found["output"].shape[:2] == (1, 1)
    return made


def test_the_whole_way_is_that_of_its_parts(model, generator, whole):
    ids = np.array([[1, *(TABLE.index(c) for c in "hello"), 2]])
    speed, pitch_shift = tf.ones([1, 7]), tf.zeros([1, 7])
    spoken = graphs.text_to_mel(model).function(
        ids, np.array([7]), vectors_of(model, 2)[1:], speed, pitch_shift
    )
    samples = generator.speak(spoken["mel"]).numpy()[0, : spoken["mel_lengths"][0] * 256]
    asked = piper_asks(numbers_of("hello", KNOWN.ids), sid=1)
    found = session_of(whole).run(None, asked)[0][0, 0]
    np.testing.assert_allclose(found, np.clip(samples, -1, 1), atol=MOST_APART)


def test_padding_is_not_spoken_and_marks_belong_to_their_letters(whole):
    session = session_of(whole)

    def said(numbers):
        return session.run(None, piper_asks(numbers))[0]

    composed = {symbol: number for number, symbol in enumerate(TABLE)}
    expected = said(numbers_of("aäçb", composed, between=None))
    np.testing.assert_array_equal(said(numbers_of("aa\u0308c\u0327b", KNOWN.ids)), expected)
    # A mark that belongs to nothing is no symbol, and is left out.
    np.testing.assert_array_equal(said(numbers_of("aa\u0308c\u0327b\u0327", KNOWN.ids)), expected)


def test_a_voice_and_its_pace_are_chosen(whole):
    session = session_of(whole)
    numbers = numbers_of("hello", KNOWN.ids)
    normal, slow = (session.run(None, piper_asks(numbers, scale))[0] for scale in (1.0, 2.0))
    assert slow.shape[2] == pytest.approx(2 * normal.shape[2], rel=0.05)
    other = session.run(None, piper_asks(numbers, sid=1))[0]
    assert other.shape != normal.shape or np.abs(other - normal).max() > 1e-3


def test_one_speaker_is_not_asked_for(model, generator):
    one, two = (
        graphs.piper_voice(model, generator, vectors_of(model, number), KNOWN, len(TABLE))
        for number in (1, 2)
    )
    assert [each.name for each in one.takes] == ["input", "input_lengths", "scales"]
    assert [each.name for each in two.takes] == ["input", "input_lengths", "scales", "sid"]
    asked = piper_asks(numbers_of("hello", KNOWN.ids))
    ours = one.function(*(tf.constant(asked[each.name]) for each in one.takes))["output"]
    theirs = two.function(*(tf.constant(asked[each.name]) for each in two.takes))["output"]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_halved_weights_halve_the_file_and_say_nearly_the_same(whole):
    halved = with_half_weights(whole)
    onnx.checker.check_model(halved)
    assert halved.ByteSize() < 0.55 * whole.ByteSize()
    asked = piper_asks(numbers_of("hello", KNOWN.ids))
    ours, theirs = (session_of(each).run(None, asked)[0] for each in (halved, whole))
    assert 0 < np.abs(ours - theirs).max() < 0.05
