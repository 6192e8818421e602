"""Speaking as one graph for any length: the mel is exactly as long as what is said.

The same graph serves `speak`, the samples of a training run and the exported model.
"""

from __future__ import annotations

import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import MEL_BINS

# Shapes are rounded up to these, so that a GPU meets few different ones.
SYMBOL_MULTIPLE, FRAME_MULTIPLE = 32, 64
# No voice dwells this long (0.46 s) on every symbol: what is longer comes of an untrained model.
MAX_FRAMES_PER_SYMBOL = 40.0

SPEAK_SIGNATURE = (
    tf.TensorSpec([None, None], tf.int32, "symbols"),
    tf.TensorSpec([None], tf.int32, "symbol_lengths"),
    tf.TensorSpec([None, REFERENCE_FRAMES, MEL_BINS], tf.float32, "reference_mel"),
    tf.TensorSpec([], tf.float32, "speed"),
    tf.TensorSpec([], tf.float32, "pitch_shift"),
)


def speak_to_the_end(
    model: AcousticModel,
    symbols: tf.Tensor,
    symbol_lengths: tf.Tensor,
    reference_mel: tf.Tensor,
    speed: tf.Tensor,
    pitch_shift: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Speak a batch; for use inside a tf.function. Arguments as in SPEAK_SIGNATURE; speed and
    pitch_shift may be float32 (batch, symbols, 1) too, one for each symbol.

    Returns:
        mel float32 (batch, frames, 80), natural log, frames a multiple of FRAME_MULTIPLE and
        silent after each row's end; mel_lengths int32 (batch,); durations int32 (batch, symbols)
    """
    longest = tf.cast(tf.reduce_max(symbol_lengths), tf.float32)
    limit = _whole_multiple(
        tf.cast(longest * MAX_FRAMES_PER_SYMBOL / tf.reduce_min(speed), tf.int32)
    )
    # Only the lengths of this first call are used; its decoder is pruned from the graph.
    _, lengths, _, _ = model.speak(
        symbols, symbol_lengths, reference_mel, speed, pitch_shift, max_frames=limit
    )
    num_frames = _whole_multiple(tf.reduce_max(lengths))
    mel, mel_lengths, durations, _ = model.speak(
        symbols, symbol_lengths, reference_mel, speed, pitch_shift, max_frames=num_frames
    )
    return mel, mel_lengths, durations


def _whole_multiple(num_frames: tf.Tensor) -> tf.Tensor:
    """At least one FRAME_MULTIPLE."""
    return (tf.maximum(num_frames, 1) + FRAME_MULTIPLE - 1) // FRAME_MULTIPLE * FRAME_MULTIPLE


def speaking_each_symbol(model: AcousticModel) -> tf.types.experimental.PolymorphicFunction:
    """`speak_to_the_end` with a speed and a pitch for each symbol: float32 (batch, symbols)."""

    def speak(
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        reference_mel: tf.Tensor,
        speed: tf.Tensor,
        pitch_shift: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        speed, pitch_shift = speed[:, :, tf.newaxis], pitch_shift[:, :, tf.newaxis]
        return speak_to_the_end(model, symbols, symbol_lengths, reference_mel, speed, pitch_shift)

    each = (
        tf.TensorSpec([None, None], tf.float32, "speed"),
        tf.TensorSpec([None, None], tf.float32, "pitch_shift"),
    )
    return tf.function(speak, input_signature=[*SPEAK_SIGNATURE[:3], *each], autograph=False)


def speaking_function(model: AcousticModel) -> tf.types.experimental.PolymorphicFunction:
    """`speak_to_the_end` of a model, traced once for every shape."""

    def speak(
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        reference_mel: tf.Tensor,
        speed: tf.Tensor,
        pitch_shift: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return speak_to_the_end(model, symbols, symbol_lengths, reference_mel, speed, pitch_shift)

    return tf.function(speak, input_signature=SPEAK_SIGNATURE, autograph=False)
