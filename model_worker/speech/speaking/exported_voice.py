"""The graphs of an exported voice: symbols to mel, symbols to waveform, recording to reference."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from model_worker.speech.speaking.speaking_graph import SPEAK_SIGNATURE, speak_to_the_end
from model_worker.vocoder.generator import Generator
from model_worker.vocoder.griffin_lim import waveform_of_mel
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import (
    FFT,
    HOP,
    LOG_FLOOR,
    MAGNITUDE_FLOOR,
    MEL_BINS,
    PAD,
    PEAK,
    hann_window,
)  # fmt: skip


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
            return {"reference_mel": reference_mel_of(recording, mel_basis, normalise_loudness)}

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


def reference_mel_of(recording: tf.Tensor, mel_basis: np.ndarray, normalise: bool) -> tf.Tensor:
    """The middle of a recording as a reference, repeated where it is shorter.

    Args: recording float32 (samples,) at 22,050 Hz, at least one FFT long; mel_basis (80, 513)
    Returns: float32 (1, REFERENCE_FRAMES, 80), natural log
    """
    if normalise:
        recording = recording * PEAK / tf.maximum(tf.reduce_max(tf.abs(recording)), 1e-4)
    padded = tf.concat([recording[PAD:0:-1], recording, recording[-2 : -PAD - 2 : -1]], axis=0)
    num_frames = tf.size(recording) // HOP
    # Four shifted views of what lies between two hops, beside each other, are the frames.
    lines = tf.reshape(padded[: (num_frames + FFT // HOP - 1) * HOP], [-1, HOP])
    frames = tf.concat([lines[i : num_frames + i] for i in range(FFT // HOP)], axis=1)
    magnitudes = tf.sqrt(_power_of(frames) + MAGNITUDE_FLOOR)
    mel = tf.math.log(tf.maximum(tf.matmul(magnitudes, mel_basis.T), LOG_FLOOR))
    # Rounded up by whole numbers above zero: below, ONNX rounds another way.
    mel = tf.tile(mel, [(REFERENCE_FRAMES + num_frames - 1) // num_frames, 1])
    start = tf.maximum(0, num_frames - REFERENCE_FRAMES) // 2
    mel = mel[start : start + REFERENCE_FRAMES]
    return tf.ensure_shape(mel, [REFERENCE_FRAMES, MEL_BINS])[tf.newaxis]


def _power_of(frames: tf.Tensor) -> tf.Tensor:
    """The power spectrum of frames, (frames, 1024) -> (frames, 513), in operations any runtime has.

    The cosines see only what is even in a frame, the sines what is odd: half the products.
    """
    windowed = frames * hann_window().astype(np.float32)
    first, second = windowed[:, : FFT // 2 + 1], tf.reverse(windowed[:, FFT // 2 :], [1])
    # Sample 0 and the middle one have no partner.
    nothing = tf.zeros_like(second[:, :1])
    second = tf.concat([nothing, second[:, :-1], nothing], axis=1)
    place = np.arange(FFT // 2 + 1)
    angle = 2 * np.pi * np.outer(place, place) / FFT
    cosines, sines = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    real, imaginary = tf.matmul(first + second, cosines), tf.matmul(first - second, sines)
    return tf.square(real) + tf.square(imaginary)
