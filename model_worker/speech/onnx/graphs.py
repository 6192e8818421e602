"""The graphs that become ONNX files, of operations that ONNX has.

There is no complex number in ONNX's older operator sets, and no transform: the spectrum of a reference
is two matrix products, as the vocoder's inverse is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from model_worker.speech.onnx.piper_convention import PhonemeMap
from model_worker.speech.speaking.exported_voice import reference_mel_of
from model_worker.speech.speaking.speaking_graph import speak_as
from model_worker.vocoder.generator import Generator
from shared.speech.mel import HOP, MEL_BINS

# Of the mel, so that nothing is made that is not heard; two frames are decoded at once.
_FRAME_MULTIPLE = 2
_SLOWEST, _FASTEST = 0.25, 4.0


class Graph(NamedTuple):
    """A function of tensors, what it takes, and what it is called as a file."""

    name: str
    function: Callable[..., dict[str, tf.Tensor]]
    takes: list[tf.TensorSpec]


def text_to_mel(model: AcousticModel) -> Graph:
    """Symbols, each with its speed and pitch, and a voice's vector to mels."""

    def graph(
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        voice: tf.Tensor,
        speed: tf.Tensor,
        pitch_shift: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        mel, mel_lengths, durations = speak_as(
            model, tf.cast(symbols, tf.int32), tf.cast(symbol_lengths, tf.int32), voice,
            speed[:, :, tf.newaxis], pitch_shift[:, :, tf.newaxis], _FRAME_MULTIPLE,
        )  # fmt: skip
        return {"mel": mel, "mel_lengths": mel_lengths, "durations": durations}

    return Graph("text-to-mel", graph, [
        tf.TensorSpec([None, None], tf.int64, "symbols"),
        tf.TensorSpec([None], tf.int64, "symbol_lengths"),
        tf.TensorSpec([None, model.shape.vector_size], tf.float32, "voice"),
        tf.TensorSpec([None, None], tf.float32, "speed"),
        tf.TensorSpec([None, None], tf.float32, "pitch_shift"),
    ])  # fmt: skip


def reference_encoder(model: AcousticModel, mel_basis: np.ndarray, normalise: bool) -> Graph:
    """A recording of a voice to its vector."""

    def graph(recording: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"voice": model.voice_of(reference_mel_of(recording, mel_basis, normalise))}

    return Graph("reference-encoder", graph, [tf.TensorSpec([None], tf.float32, "recording")])


def vocoder(generator: Generator) -> Graph:
    """Mels to samples."""

    def graph(mel: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"waveform": tf.clip_by_value(generator.speak(mel), -1.0, 1.0)}

    return Graph("vocoder", graph, [tf.TensorSpec([None, None, MEL_BINS], tf.float32, "mel")])


def piper_voice(
    model: AcousticModel,
    generator: Generator,
    voices: np.ndarray,
    known: PhonemeMap,
    num_symbols: int,
) -> Graph:
    """The whole way, as Piper calls it: one utterance at a time.

    Args: voices float32 (speakers, vector size); num_symbols of the symbol table
    """
    has_sid = len(voices) > 1

    def graph(
        numbers: tf.Tensor, lengths: tf.Tensor, scales: tf.Tensor, sid: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        symbols = _symbols_of(tf.cast(numbers[0, : lengths[0]], tf.int32), known, num_symbols)
        speaker = tf.zeros([1], tf.int64) if sid is None else sid[:1]
        voice = tf.gather(tf.constant(voices), speaker)
        speed = tf.clip_by_value(1.0 / scales[1], _SLOWEST, _FASTEST)
        mel, mel_lengths, _ = speak_as(
            model, symbols[tf.newaxis], tf.shape(symbols), voice, speed, tf.constant(0.0),
            _FRAME_MULTIPLE,
        )  # fmt: skip
        samples = tf.clip_by_value(generator.speak(mel), -1.0, 1.0)
        return {"output": samples[:, tf.newaxis, : mel_lengths[0] * HOP]}

    takes = [
        tf.TensorSpec([None, None], tf.int64, "input"),
        tf.TensorSpec([None], tf.int64, "input_lengths"),
        tf.TensorSpec([3], tf.float32, "scales"),
    ]
    if has_sid:
        takes.append(tf.TensorSpec([None], tf.int64, "sid"))
    return Graph("voice", graph, takes)


def _symbols_of(numbers: tf.Tensor, known: PhonemeMap, num_symbols: int) -> tf.Tensor:
    """Our symbols for Piper's numbers, int32 (numbers,) both: padding away, marks on their letters."""
    numbers = tf.boolean_mask(numbers, numbers > 0)
    if known.pairs:
        letters, marks, wholes = np.array(known.pairs, np.int32).T
        following = tf.concat([numbers[1:], [0]], axis=0)
        is_pair = (numbers[:, tf.newaxis] == letters) & (following[:, tf.newaxis] == marks)
        whole = tf.reduce_sum(tf.where(is_pair, wholes, 0), axis=1)
        is_used_up = tf.concat([[False], whole[:-1] > 0], axis=0)
        numbers = tf.where(is_used_up, 0, tf.where(whole > 0, whole, numbers))
    return tf.boolean_mask(numbers, (numbers > 0) & (numbers < num_symbols))
