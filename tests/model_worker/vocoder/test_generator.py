"""A generator speaks mels of any length, at the pitch that it is told or reads, and learns to."""

import keras
import librosa
import numpy as np
import pytest
import tensorflow as tf

from model_worker.vocoder.generator import Generator, GeneratorShape, Scale, build_generator
from model_worker.vocoder.losses import loss_parts
from model_worker.vocoder.pitch_reader import STEPS, log_f0_of, surprise
from shared.speech.mel import HOP, SAMPLE_RATE, log_mel

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
SCALE = Scale(-5.0, 2.0, 5.0, 0.2)


@pytest.fixture(scope="module")
def small():
    keras.utils.set_random_seed(3)
    model = Generator(GeneratorShape(32, 2, 64), SCALE, BASIS)
    model.speak(tf.zeros([1, 4, 80]))
    return model


def vowel(hertz, num_frames):
    """A buzz with a formant, float32 (samples,)."""
    time_s = np.arange(num_frames * HOP) / SAMPLE_RATE
    harmonics = np.arange(1, int(7000 / hertz))
    loudness = np.exp(-(((harmonics * hertz - 700) / 900) ** 2)) + 0.02
    waves = loudness[:, None] * np.sin(2 * np.pi * hertz * harmonics[:, None] * time_s)
    return (0.1 * waves.sum(axis=0)).astype(np.float32)


def spoken(model, mel, hertz):
    log_f0 = tf.fill([1, len(mel)], tf.math.log(tf.constant(hertz, tf.float32)))
    return model(tf.constant(mel[None]), log_f0, tf.zeros([1], tf.int32))[0].numpy()


@pytest.mark.parametrize("hertz", [95.0, 140.0, 230.0])
def test_before_it_has_learned_anything_it_already_speaks_at_the_pitch_it_is_told(small, hertz):
    mel = log_mel(vowel(hertz, 60), BASIS)
    made = spoken(small, mel, hertz)[10 * HOP : 50 * HOP]
    spectrum = np.abs(np.fft.rfft(made * np.hanning(len(made))))
    bin_hz = SAMPLE_RATE / len(made)
    peaks = [np.argmax(spectrum[int((h - 0.4) * hertz / bin_hz) : int((h + 0.4) * hertz / bin_hz)])
             + int((h - 0.4) * hertz / bin_hz) for h in (3, 4, 5)]  # fmt: skip
    np.testing.assert_allclose(np.array(peaks) * bin_hz, hertz * np.array([3, 4, 5]), rtol=0.01)


def test_a_frame_knows_only_those_around_it_so_that_any_length_is_one_call(small):
    mel = log_mel(vowel(120.0, 200), BASIS) + np.random.default_rng(0).normal(0, 0.3, (200, 80))
    long, short = spoken(small, mel.astype(np.float32), 120.0), spoken(
        small, mel[:100].astype(np.float32), 120.0
    )  # fmt: skip
    assert len(long) == 200 * HOP and len(short) == 100 * HOP
    np.testing.assert_allclose(long[: 80 * HOP], short[: 80 * HOP], atol=1e-5)


def test_rows_do_not_know_of_each_other(small):
    mels = np.random.default_rng(1).normal(-5, 2, (3, 20, 80)).astype(np.float32)
    log_f0 = np.linspace(4.5, 5.5, 60).reshape(3, 20).astype(np.float32)
    noise = np.array([0, 100, 255], np.int32)
    together = small(*map(tf.constant, (mels, log_f0, noise))).numpy()
    for row in (slice(0, 1), slice(1, 2), slice(2, 3)):
        alone = small(*(tf.constant(each[row]) for each in (mels, log_f0, noise)))
        np.testing.assert_allclose(alone, together[row], atol=1e-5 * np.abs(together).max())


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_layers_that_compute_in_16_bits_change_little(policy):
    mel, made = log_mel(vowel(140.0, 40), BASIS), []
    for chosen in ("float32", policy):
        keras.config.set_dtype_policy(chosen)
        try:
            keras.utils.set_random_seed(3)
            model = Generator(GeneratorShape(32, 2, 64), SCALE, BASIS)
            model.speak(tf.zeros([1, 4, 80]))
            made.append(spoken(model, mel, 140.0))
        finally:
            keras.config.set_dtype_policy("float32")
    assert made[1].dtype == np.float32
    assert np.corrcoef(made[0], made[1])[0, 1] > 0.999


def test_it_is_made_of_operations_that_any_runtime_has(small):
    graph = tf.function(small.speak, input_signature=[tf.TensorSpec([None, None, 80])])
    operations = {each.type for each in graph.get_concrete_function().graph.get_operations()}
    assert not {each for each in operations if "Complex" in each or "FFT" in each.upper()}
    assert "Log1p" not in operations and "MatMul" in operations


def test_it_learns_to_speak_a_voice_and_to_read_its_pitch():
    keras.utils.set_random_seed(4)
    model = Generator(GeneratorShape(32, 2, 64), SCALE, BASIS)
    hertz = np.array([100.0, 130.0, 170.0, 220.0])
    audio = np.stack([vowel(each, 16) for each in hertz])
    mel = tf.constant(np.stack([log_mel(each, BASIS) for each in audio]))
    log_f0 = tf.constant(np.tile(np.log(hertz)[:, None], 16), tf.float32)
    model.speak(mel)
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            likelihood = model.pitch_of(mel)
            made = model(mel, log_f0, tf.range(4))
            parts = loss_parts(made, tf.constant(audio), tf.ones(4), model.mel_basis)
            loss = tf.add_n([*parts.values(), tf.reduce_mean(surprise(likelihood, log_f0))])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return parts["magnitude"]

    before = float(step())
    for _ in range(60):
        after = step()
    assert float(after) < 0.7 * before
    read = np.exp(log_f0_of(model.pitch_of(mel)).numpy())
    np.testing.assert_allclose(read[:, 4:12], np.tile(hertz[:, None], 8), rtol=0.02)


def test_a_likelihood_at_one_step_of_the_scale_is_that_pitch():
    for step, hertz in ((0, 60.0), (STEPS - 1, 500.0)):
        likelihood = 50.0 * tf.one_hot([[step]], STEPS)
        assert np.exp(log_f0_of(likelihood).numpy().item()) == pytest.approx(hertz, rel=1e-3)
        at_it, beside_it = (
            float(surprise(likelihood, tf.math.log([[each]]))[0, 0]) for each in (hertz, 200.0)
        )
        assert at_it < 0.5 * beside_it


@pytest.mark.parametrize(("size", "millions"), [("tiny", (1.2, 1.4)), ("big", (12, 16))])
def test_a_size_is_as_large_as_its_name(size, millions):
    model = build_generator(size, SCALE, BASIS)
    count = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    assert millions[0] * 1e6 < count < millions[1] * 1e6
