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
    vector = model.voice_of(reference_mel)
    return speak_as(model, symbols, symbol_lengths, vector, speed, pitch_shift)


def speak_as(
    model: AcousticModel,
    symbols: tf.Tensor,
    symbol_lengths: tf.Tensor,
    vector: tf.Tensor,
    speed: tf.Tensor,
    pitch_shift: tf.Tensor,
    frame_multiple: int = FRAME_MULTIPLE,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`speak_to_the_end` in a voice that is known as a vector, float32 (batch, vector size)."""
    plan = model.plan_speech(symbols, symbol_lengths, vector, speed, pitch_shift)
    longest = tf.cast(tf.reduce_max(symbol_lengths), tf.float32)
    most = longest * MAX_FRAMES_PER_SYMBOL / tf.reduce_min(speed)
    num_frames = tf.maximum(tf.cast(tf.minimum(plan.longest, most), tf.int32), 1)
    num_frames = (num_frames + frame_multiple - 1) // frame_multiple * frame_multiple
    mel, mel_lengths, durations, _ = model.say(plan, num_frames)
    return mel, mel_lengths, durations


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
