"""The acoustic model: padding, filler rows, sizes, precision, learning, speaking."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech import losses
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import build_model
from shared.speech.corpus_statistics import Statistics

STATISTICS = Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0)
NUM_SYMBOLS = 20


def make_batch(rows=3, symbols=9, frames=41, seed=0):
    """A batch of random speech with padding in every row but the first."""
    rng = np.random.default_rng(seed)
    symbol_lengths = np.maximum(2, symbols - 2 * np.arange(rows))
    mel_lengths = np.maximum(12, frames - 7 * np.arange(rows))
    is_symbol = np.arange(symbols) < symbol_lengths[:, None]
    is_frame = np.arange(frames) < mel_lengths[:, None]
    mel = rng.normal(-5, 2, size=(rows, frames, 80))
    batch = {
        "symbols": np.where(is_symbol, rng.integers(1, NUM_SYMBOLS, size=is_symbol.shape), 0),
        "symbol_lengths": symbol_lengths,
        "mel": np.where(is_frame[..., None], mel, np.log(1e-5)),
        "mel_lengths": mel_lengths,
        "pitch": np.where(is_frame & (rng.random(is_frame.shape) < 0.7), 150.0, 0.0),
        "energy": np.where(is_frame, rng.random(is_frame.shape), 0.0),
        "reference_mel": rng.normal(-5, 2, size=(rows, 192, 80)),
        "weight": np.ones(rows),
    }
    return {name: _tensor(value) for name, value in batch.items()}


def _tensor(value):
    return tf.constant(value, tf.int32 if value.dtype.kind == "i" else tf.float32)


def widened(batch, symbols, frames):
    """The same rows with more padding."""
    floor = {"mel": np.log(1e-5)}
    wide = {}
    for name, value in batch.items():
        more = {"symbols": symbols, "mel": frames, "pitch": frames, "energy": frames}.get(name, 0)
        pads = [[0, 0], [0, more], [0, 0]][: value.shape.rank]
        wide[name] = tf.pad(value, pads, constant_values=floor.get(name, 0)) if more else value
    return wide


def with_filler(batch):
    """The same rows and one of weight zero."""
    grown = {name: tf.concat([value, value[:1]], axis=0) for name, value in batch.items()}
    rows = len(batch["weight"])
    for name, value in {"symbol_lengths": 1, "mel_lengths": 1, "weight": 0.0}.items():
        column = grown[name].numpy()
        column[rows] = value
        grown[name] = tf.constant(column)
    return grown


def loss_of(model, batch, training=False):
    parts = losses.loss_parts(model.training_outputs(batch, training=training), batch)
    return tf.add_n(list(parts.values())) / losses.num_frames(batch)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return build_model("tiny", NUM_SYMBOLS, STATISTICS)


@pytest.mark.parametrize("size, millions", [("tiny", 1), ("small", 6), ("normal", 25), ("big", 80)])
def test_a_size_has_about_the_parameters_it_promises(size, millions):
    built = build_model(size, 60, STATISTICS)
    num_parameters = sum(int(np.prod(v.shape)) for v in built.trainable_variables)
    assert 0.8 * millions < num_parameters / 1e6 < 1.25 * millions


def test_more_padding_changes_nothing(model):
    batch = make_batch()
    narrow = model.training_outputs(batch, training=False)
    wide = model.training_outputs(widened(batch, 6, 23), training=False)
    np.testing.assert_array_equal(narrow["durations"], wide["durations"][:, :9])
    for row, (symbols, frames) in enumerate(
        zip(batch["symbol_lengths"], batch["mel_lengths"], strict=True)
    ):
        np.testing.assert_allclose(
            narrow["mel"][row, :frames], wide["mel"][row, :frames], atol=2e-5
        )
        for name in ("log_durations", "prosody"):
            np.testing.assert_allclose(
                narrow[name][row, :symbols], wide[name][row, :symbols], atol=2e-5
            )


def test_more_padding_does_not_change_what_is_spoken(model):
    batch = make_batch()
    wide = widened(batch, 6, 0)
    results = [
        model.speak(b["symbols"], b["symbol_lengths"], b["reference_mel"], max_frames=frames)
        for b, frames in ((batch, 200), (wide, 260))
    ]
    np.testing.assert_array_equal(results[0][1], results[1][1])
    np.testing.assert_allclose(results[0][0], results[1][0][:, :200], atol=1e-4)


def test_filler_rows_contribute_nothing(model):
    batch = make_batch()
    for own, other in zip(
        *(
            losses.loss_parts(model.training_outputs(b, training=False), b).values()
            for b in (batch, with_filler(batch))
        ),
        strict=True,
    ):
        np.testing.assert_allclose(own, other, rtol=1e-5)


def test_speed_and_pitch_do_what_they_say(model):
    batch = make_batch()
    inputs = batch["symbols"], batch["symbol_lengths"], batch["reference_mel"]
    _, normal, durations, path = model.speak(*inputs, max_frames=400)
    _, fast, _, _ = model.speak(*inputs, speed=2.0, max_frames=400)
    np.testing.assert_allclose(fast, normal / 2, atol=1)
    np.testing.assert_array_equal(tf.reduce_sum(durations, axis=1), normal)
    np.testing.assert_array_equal(tf.reduce_sum(path, axis=[1, 2]), normal)
    mel, _, _, _ = model.speak(*inputs, pitch_shift=4.0, max_frames=400)
    assert np.abs(mel - model.speak(*inputs, max_frames=400)[0]).max() > 1e-3


def test_a_small_limit_cuts_the_speech_and_says_so(model):
    batch = make_batch()
    mel, lengths, durations, _ = model.speak(
        batch["symbols"], batch["symbol_lengths"], batch["reference_mel"], speed=0.1, max_frames=50
    )
    assert mel.shape == (3, 50, 80)
    assert np.max(lengths) == 50
    np.testing.assert_array_equal(tf.reduce_sum(durations, axis=1), lengths)


def test_the_model_learns_a_batch_by_heart():
    keras.utils.set_random_seed(2)
    learner = build_model("tiny", NUM_SYMBOLS, STATISTICS)
    batch = make_batch(rows=2, symbols=6, frames=30)
    optimizer = keras.optimizers.Adam(3e-3)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(learner, batch, training=True)
        gradients = tape.gradient(loss, learner.trainable_variables)
        optimizer.apply_gradients(zip(gradients, learner.trainable_variables, strict=True))
        return loss

    before = float(step())
    for _ in range(40):
        after = float(step())
    assert after < 0.75 * before


def test_every_weight_gets_a_gradient(model):
    batch = make_batch()
    with tf.GradientTape() as tape:
        loss = loss_of(model, batch, training=True)
    gradients = tape.gradient(loss, model.trainable_variables)
    missing = [
        v.path for g, v in zip(gradients, model.trainable_variables, strict=True) if g is None
    ]
    assert not missing


def test_inner_matrices_are_kernels_and_no_heads(model):
    inner = model.inner_matrices()
    assert all(len(variable.shape) > 1 for variable in inner)
    assert not any("embedding" in variable.path for variable in inner)
    share = sum(int(np.prod(v.shape)) for v in inner) / sum(
        int(np.prod(v.shape)) for v in model.trainable_variables
    )
    assert share > 0.8


def test_a_compiled_step_gives_the_same_loss(model):
    batch = make_batch()
    compiled = tf.function(lambda b: loss_of(model, b), jit_compile=True)
    assert float(compiled(batch)) == pytest.approx(float(loss_of(model, batch)), rel=1e-4)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_losses_and_durations_exact(policy):
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(policy)
    try:
        narrow = build_model("tiny", NUM_SYMBOLS, STATISTICS)
        batch = make_batch()
        outputs = narrow.training_outputs(batch, training=True)
        assert {
            outputs[name].dtype for name in ("mel", "prior_mel", "log_durations", "prosody")
        } == {tf.float32}
        np.testing.assert_array_equal(
            tf.reduce_sum(outputs["durations"], axis=1), batch["mel_lengths"]
        )
        assert np.isfinite(float(loss_of(narrow, batch, training=True)))
        assert all(v.dtype == "float32" for v in narrow.trainable_variables)
        mel, _lengths, _, _ = narrow.speak(
            batch["symbols"], batch["symbol_lengths"], batch["reference_mel"], max_frames=100
        )
        assert mel.dtype == tf.float32 and np.all(np.isfinite(mel))
    finally:
        keras.mixed_precision.set_dtype_policy(before)


def test_dropout_is_the_same_for_the_same_step_and_another_for_the_next():
    acoustic_model.SHAPES["with_dropout"] = acoustic_model.ModelShape(16, 1, 16, 1, 8, 8, 1, 4, 0.5)
    dropping = build_model("with_dropout", NUM_SYMBOLS, STATISTICS)
    batch = make_batch()
    first, again, other = (
        dropping.training_outputs(batch, training=True, step=step)["mel"].numpy()
        for step in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_channels_are_dropped_in_training_once_the_examples_are_known():
    plain = build_model("tiny", NUM_SYMBOLS, STATISTICS)
    dropping = build_model("tiny", NUM_SYMBOLS, STATISTICS, steps_per_pass=1.0)
    for own, other in zip(dropping.variables, plain.variables, strict=True):
        own.assign(other)
    batch = make_batch()

    def mel(model, step, training=True):
        return model.training_outputs(batch, training=training, step=step)["mel"].numpy()

    np.testing.assert_array_equal(mel(dropping, 8), mel(plain, 8))
    np.testing.assert_array_equal(mel(dropping, 64), mel(dropping, 64))
    assert np.abs(mel(dropping, 64) - mel(plain, 64)).max() > 0
    np.testing.assert_array_equal(mel(dropping, 64, False), mel(plain, 64, False))
