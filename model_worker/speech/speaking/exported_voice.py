"""The graphs of an exported voice: symbols to mel, symbols to waveform, recording to reference."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from model_worker.speech.speaking.speaking_graph import SPEAK_SIGNATURE, speak_to_the_end
from model_worker.vocoder.generator import Generator
from model_worker.vocoder.griffin_lim import waveform_of_mel
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import FFT, HOP, LOG_FLOOR, MAGNITUDE_FLOOR, MEL_BINS, PAD, PEAK


class ExportedVoice(tf.Module):
    """What is saved: weights and functions of tensors, and nothing of our classes."""

    def __init__(
        self,
        model: AcousticModel,
        mel_basis: np.ndarray,
        normalise_loudness: bool,
        generator: Generator | None = None,
    ):
        """`generator`: of the vocoder that makes the waveform; None: Griffin-Lim does."""
        super().__init__()
        self._weights = [variable.value for variable in model.variables]
        if generator is not None:
            self._weights += [variable.value for variable in generator.variables]
        basis = tf.constant(mel_basis, tf.float32)

        def mel(
            symbols: tf.Tensor,
            symbol_lengths: tf.Tensor,
            reference_mel: tf.Tensor,
            speed: tf.Tensor,
            pitch_shift: tf.Tensor,
        ) -> dict[str, tf.Tensor]:
            spoken, lengths, durations = speak_to_the_end(
                model, symbols, symbol_lengths, reference_mel, speed, pitch_shift
            )
            return {"mel": spoken, "mel_lengths": lengths, "durations": durations}

        def waveform(
            symbols: tf.Tensor,
            symbol_lengths: tf.Tensor,
            reference_mel: tf.Tensor,
            speed: tf.Tensor,
            pitch_shift: tf.Tensor,
        ) -> dict[str, tf.Tensor]:
            # The function of the other signature, so that the model is in the file only once.
            spoken = self.mel(symbols, symbol_lengths, reference_mel, speed, pitch_shift)
            if generator is None:
                samples = waveform_of_mel(spoken["mel"], mel_basis)
            else:
                samples = tf.clip_by_value(generator.speak(spoken["mel"]), -1.0, 1.0)
            return {"waveform": samples, "waveform_lengths": spoken["mel_lengths"] * HOP}

        def reference(recording: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"reference_mel": _reference_mel(recording, basis, normalise_loudness)}

        self.mel = tf.function(mel, input_signature=SPEAK_SIGNATURE, autograph=False)
        self.waveform = tf.function(waveform, input_signature=SPEAK_SIGNATURE, autograph=False)
        self.reference = tf.function(
            reference,
            input_signature=[tf.TensorSpec([None], tf.float32, "recording")],
            autograph=False,
        )

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Name -> graph, as SavedModel wants them; `waveform` is also the default."""
        waveform = self.waveform.get_concrete_function()
        return {
            "mel": self.mel.get_concrete_function(),
            "waveform": waveform,
            "reference": self.reference.get_concrete_function(),
            "serving_default": waveform,
        }


def _reference_mel(recording: tf.Tensor, basis: tf.Tensor, normalise: bool) -> tf.Tensor:
    """The middle of a recording as a reference, repeated where it is shorter.

    Args: recording float32 (samples,) at 22,050 Hz, at least one FFT long; basis (80, 513)
    Returns: float32 (1, REFERENCE_FRAMES, 80), natural log
    """
    if normalise:
        recording = recording * PEAK / tf.maximum(tf.reduce_max(tf.abs(recording)), 1e-4)
    padded = tf.pad(recording, [[PAD, PAD]], mode="REFLECT")
    frames = tf.signal.frame(padded, FFT, HOP)[: tf.size(recording) // HOP]
    spectrum = tf.signal.rfft(frames * tf.signal.hann_window(FFT, periodic=True))
    magnitudes = tf.sqrt(tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
                         + MAGNITUDE_FLOOR)  # fmt: skip
    mel = tf.math.log(tf.maximum(tf.matmul(magnitudes, basis, transpose_b=True), LOG_FLOOR))
    num_frames = tf.shape(mel)[0]
    mel = tf.tile(mel, [tf.maximum(1, -(-REFERENCE_FRAMES // num_frames)), 1])
    start = tf.maximum(0, num_frames - REFERENCE_FRAMES) // 2
    mel = mel[start : start + REFERENCE_FRAMES]
    return tf.ensure_shape(mel, [REFERENCE_FRAMES, MEL_BINS])[tf.newaxis]
