"""Speaking: what is said does not depend on padding, company or the day; speed and pitch do act."""

from types import SimpleNamespace
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.speaking.loaded_voice import Voice, load_model
from model_worker.speech.speaking.speaking_graph import (
    FRAME_MULTIPLE,
    MAX_FRAMES_PER_SYMBOL,
    speaking_function,
)
from model_worker.speech.speaking.vocoder import SavedVocoder
from model_worker.vocoder.griffin_lim import GriffinLim
from shared.errors import CheckpointError, InputError
from shared.speech.corpus_statistics import Statistics
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.encoder import TextEncoder

TABLE = ["_", "<s>", "</s>", " ", *"abcdefghijklmnopqrstuvwxyz,.!?"]
STATISTICS = Statistics(-5.0, 2.0, 5.0, 0.3, 1.0, 1.0)
REFERENCE = np.random.default_rng(1).normal(-5, 2, (192, 80)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    model = build_model("tiny", len(TABLE), STATISTICS)
    for variable in model.trainable_variables:  # an untrained model says one frame a symbol
        if "predictor" in variable.path and variable.path.endswith("bias"):
            variable.assign(np.full(variable.shape, 0.7, np.float32))
    return model


@pytest.fixture(scope="module")
def index():
    text = {"frontend": "characters", "language": "en-us"}
    return SimpleNamespace(text=text, symbol_table=TABLE, **vars(STATISTICS))


@pytest.fixture(scope="module")
def voice(model):
    return Voice(model)


def ids(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(4, len(TABLE), length).astype(np.int32)


def spoken_in_batch(model, rows: list[np.ndarray], num_symbols: int):
    symbols = np.zeros((len(rows), num_symbols), np.int32)
    for slot, row in enumerate(rows):
        symbols[slot, : len(row)] = row
    lengths = np.array([len(row) for row in rows], np.int32)
    references = np.repeat(REFERENCE[np.newaxis], len(rows), axis=0)
    speak = speaking_function(model)
    mel, mel_lengths, durations = speak(
        symbols, lengths, references, tf.constant(1.0), tf.constant(0.0)
    )
    return mel.numpy(), mel_lengths.numpy(), durations.numpy()


def test_the_same_text_gives_the_same_samples(voice):
    first, second = (voice.speak_ids(ids(20), REFERENCE) for _ in range(2))
    np.testing.assert_array_equal(first.mel, second.mel)
    vocoder = GriffinLim(np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50)
    np.testing.assert_array_equal(vocoder(first.mel), vocoder(first.mel))
    assert vocoder(first.mel).shape == (len(first.mel) * HOP,)


def test_speech_does_not_depend_on_padding_or_on_the_rest_of_the_batch(model, voice):
    alone = voice.speak_ids(ids(20), REFERENCE)
    mel, lengths, durations = spoken_in_batch(model, [ids(40, 5), ids(20)], 96)
    assert lengths[1] == len(alone.mel)
    np.testing.assert_array_equal(durations[1, :20], alone.durations)
    np.testing.assert_allclose(mel[1, : lengths[1]], alone.mel, atol=1e-4)
    np.testing.assert_allclose(mel[1, lengths[1] :], np.log(1e-5), atol=1e-5)
    assert mel.shape[1] % FRAME_MULTIPLE == 0 and mel.shape[1] - lengths.max() < FRAME_MULTIPLE


def test_the_alignment_gives_every_frame_to_one_symbol(voice):
    spoken = voice.speak_ids(ids(20), REFERENCE)
    assert spoken.durations.sum() == len(spoken.mel) > 20
    assert spoken.alignment.shape == (len(spoken.mel), 20)
    np.testing.assert_array_equal(spoken.alignment.sum(axis=1), 1.0)
    np.testing.assert_array_equal(spoken.alignment.sum(axis=0), spoken.durations)


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0, 4.0])
def test_speed_divides_the_length(voice, speed):
    usual = len(voice.speak_ids(ids(60), REFERENCE).mel)
    found = len(voice.speak_ids(ids(60), REFERENCE, speed).mel)
    # The usual length is itself rounded to a whole frame.
    assert found == pytest.approx(usual / speed, abs=1 + 0.5 / speed)


def test_pitch_changes_the_mel_and_not_the_length(voice):
    usual, higher = (voice.speak_ids(ids(20), REFERENCE, 1.0, pitch) for pitch in (0.0, 6.0))
    assert len(usual.mel) == len(higher.mel)
    assert np.abs(usual.mel - higher.mel).max() > 0.01


def test_a_model_that_dwells_for_ever_is_cut_off(model):
    before = [variable.numpy() for variable in model.trainable_variables]
    try:
        for variable in model.trainable_variables:
            if "predictor" in variable.path and variable.path.endswith("bias"):
                variable.assign(np.full(variable.shape, 50.0, np.float32))
        spoken = Voice(model).speak_ids(ids(10), REFERENCE)
    finally:
        for variable, value in zip(model.trainable_variables, before, strict=True):
            variable.assign(value)
    assert len(spoken.mel) < 10 * MAX_FRAMES_PER_SYMBOL + FRAME_MULTIPLE


def test_long_text_is_spoken_in_pieces_with_pauses(voice, index):
    def mel_of(text):
        return np.concatenate(
            voice.speak_pieces(TextEncoder.of_index(index).encode(text), REFERENCE)
        )

    one, both = mel_of("One word."), mel_of("One word. One word.")
    pause = both[len(one) : -len(one)]
    np.testing.assert_array_equal(both[: len(one)], one)
    np.testing.assert_array_equal(both[-len(one) :], one)
    assert 15 < len(pause) < 30 and (pause == np.float32(np.log(1e-5))).all()


def spoken(voice, index, text, **settings):
    return voice.speak_pieces(TextEncoder.of_index(index).encode(text), REFERENCE, **settings)


def test_a_break_is_that_much_silence_in_the_sound_at_any_speed(voice, index):
    vocoder = GriffinLim(np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50)
    for speed in (1.0, 2.0):
        one, both = (
            np.concatenate([vocoder(mel) for mel in spoken(voice, index, text, speed=speed)])
            for text in ("One word.", 'One word. <break time="800ms"/> One word.')
        )
        pause = both[len(one) : -len(one)]
        assert len(pause) / SAMPLE_RATE == pytest.approx(0.8, abs=0.5 * HOP / SAMPLE_RATE)
        # The last windows of the word before reach into it.
        assert np.abs(pause[4 * HOP :]).max() < 0.01 * np.abs(one).max()


def test_prosody_makes_a_sentence_as_much_slower_as_it_says(voice, index):
    (plain,), (slow,), (slower,) = (
        spoken(voice, index, text)
        for text in (
            "We never said that.",
            '<prosody rate="80%">We never said that.</prosody>',
            '<prosody rate="50%">We never said that.</prosody>',
        )
    )
    assert len(slow) == pytest.approx(len(plain) / 0.8, abs=1)
    assert len(slower) == pytest.approx(len(plain) / 0.5, abs=1)


def test_emphasis_makes_its_word_longer_and_leaves_the_others(voice, index):
    (plain,) = TextEncoder.of_index(index).encode("We never said that.")
    (piece,) = TextEncoder.of_index(index).encode(
        'We <emphasis level="strong">never</emphasis> said that.'
    )
    np.testing.assert_array_equal(piece.symbols, plain.symbols)
    assert piece.speed is not None
    usual = voice.speak_ids(plain.symbols, REFERENCE).durations
    found = voice.speak_ids(piece.symbols, REFERENCE, piece.speed, piece.pitch).durations
    in_word = piece.speed < 1
    assert found[in_word].sum() == pytest.approx(usual[in_word].sum() / 0.7, abs=1)
    assert found[~in_word].sum() == pytest.approx(usual[~in_word].sum(), abs=2)


def test_the_pitch_of_each_symbol_is_the_one_that_was_asked_for(model, voice, index):
    """The contour that the decoder is given: of a word that is set higher, and of the others."""
    contours = []
    contour = acoustic_model.alignment.contour

    def seen(values, durations, path):
        found = contour(values, durations, path)
        tf.py_function(lambda each: contours.append(each.numpy()), [found], [])
        return found

    (piece,) = TextEncoder.of_index(index).encode(
        'We <prosody pitch="+5st">never</prosody> said that.'
    )
    assert piece.pitch is not None
    with mock.patch.object(acoustic_model.alignment, "contour", seen):
        own = Voice(model)
        own.speak_ids(piece.symbols, REFERENCE)
        usual, durations = contours[-1][0], own.speak_ids(piece.symbols, REFERENCE).durations
        own.speak_ids(piece.symbols, REFERENCE, 1.0, piece.pitch)
        higher = contours[-1][0]
    ends = np.cumsum(durations)
    semitones = (higher - usual)[: ends[-1]] * STATISTICS.pitch_std * 12 / np.log(2)
    in_word = np.repeat(piece.pitch > 0, durations)
    np.testing.assert_allclose(semitones[in_word].max(), 5, atol=1e-3)
    assert np.median(semitones[in_word]) > 4.9 and np.median(semitones[~in_word]) < 0.1


@pytest.mark.parametrize("text", ["", " \n", "...", "!?", "☃"])
def test_text_without_a_sound_has_no_pieces(index, text):
    assert TextEncoder.of_index(index).encode(text) == []


def test_unknown_symbols_are_told_once_each_and_the_rest_is_spoken(index):
    encoder = TextEncoder.of_index(index)
    pieces = encoder.encode("naïve café. Über naïve!")
    assert len(pieces) == 2 and encoder.unknown == {"ï": "naïve", "é": "café", "ü": "Über"}
    assert len(pieces[0].symbols) == 2 + len("nave caf.")


def test_weights_go_back_by_their_order_and_must_fit(model, index):
    arrays = [v.numpy() + 1 for v in model.trainable_variables]
    ema = {f"{i:03d}.any/name_{i}": array for i, array in enumerate(arrays)}
    loaded = load_model(index, "tiny", SimpleNamespace(groups={"ema": ema}, path="here"))
    for variable, array in zip(loaded.trainable_variables, arrays, strict=True):
        np.testing.assert_array_equal(variable.numpy(), array)
    del ema["003.any/name_3"]
    with pytest.raises(CheckpointError, match="do not fit a tiny model with 34 symbols"):
        load_model(index, "tiny", SimpleNamespace(groups={"ema": ema}, path="here"))


@pytest.mark.parametrize("bins_last", [True, False])
def test_a_vocoder_of_either_layout_is_used(tmp_path, bins_last):
    shape = [1, None, 80] if bins_last else [1, 80, None]
    save_vocoder(tmp_path, shape, lambda mel: mel if bins_last else tf.transpose(mel, [0, 2, 1]))
    mel = np.linspace(-0.5, 0.5, 7, dtype=np.float32)[:, np.newaxis] * np.ones(80, np.float32)
    samples = SavedVocoder(str(tmp_path))(mel)
    np.testing.assert_allclose(samples, np.repeat(mel[:, 0], HOP), atol=1e-6)


def test_a_vocoder_for_another_mel_is_refused(tmp_path):
    save_vocoder(tmp_path / "bins", [1, None, 100], lambda mel: mel)
    with pytest.raises(InputError, match=r"expected a mel of shape \(1, frames, 80\)"):
        SavedVocoder(str(tmp_path / "bins"))
    save_vocoder(tmp_path / "hop", [1, None, 80], lambda mel: mel, hop=300)
    with pytest.raises(InputError, match="expected 256 for each"):
        SavedVocoder(str(tmp_path / "hop"))(np.zeros((9, 80), np.float32))


def save_vocoder(folder, shape, bins_last_of, hop=HOP) -> None:
    module = tf.Module()
    module.speak = tf.function(
        lambda mel: {"audio": tf.repeat(tf.reduce_mean(bins_last_of(mel), axis=2), hop, axis=1)},
        input_signature=[tf.TensorSpec(shape, tf.float32, "mel")],
    )
    tf.saved_model.save(module, str(folder), signatures=module.speak)
