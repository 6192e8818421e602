"""Mel to samples: a few convolutions over frames, and an inverse transform.

First the pitch is read off the mel. Then the network says how loud each bin is, how its phase differs
from that of a pulse train of that pitch, how deep the valleys between the harmonics are, and how much
noise there is. All of it starts from what the mel itself says, so that an untrained network speaks
already, if badly.
"""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from model_worker.vocoder.excitation import excitation_of, noise_of
from model_worker.vocoder.inverse_stft import BINS, samples_of
from model_worker.vocoder.layers import KERNEL, Block
from model_worker.vocoder.pitch_reader import PitchReader, log_f0_of
from model_worker.vocoder.products import Dense, product
from shared.plan.index import Index
from shared.speech.mel import FFT, MEL_BINS, SAMPLE_RATE

# Bounds of what is added to the logarithm of a magnitude, so that no first step explodes.
_MOST_GAIN, _FIRST_NOISE = 6.0, -2.0
_LOUDEST = 7.0  # natural log of the largest magnitude a full-scale sine can have, and some


@dataclasses.dataclass(frozen=True)
class GeneratorShape:
    """The dimensions behind a --model-size."""

    channels: int
    blocks: int
    hidden: int


SHAPES = {
    "tiny": GeneratorShape(192, 6, 384),
    "small": GeneratorShape(256, 8, 768),
    "normal": GeneratorShape(384, 8, 1152),
    "big": GeneratorShape(512, 8, 1536),
}


@dataclasses.dataclass(frozen=True)
class Scale:
    """Mean and deviation of the corpus' natural log mel, and of the log of its F0."""

    mel_mean: float
    mel_std: float
    pitch_mean: float
    pitch_std: float

    @classmethod
    def of_index(cls, index: Index) -> Scale:
        """That of a run's index."""
        return cls(**{field.name: getattr(index, field.name) for field in dataclasses.fields(cls)})


class Generator(keras.Model):
    """A vocoder: a mel and its fundamental frequency to a waveform."""

    def __init__(self, shape: GeneratorShape, scale: Scale, mel_basis: np.ndarray):
        # Its inputs are no numbers for 16 bits: of a hundredth harmonic the phase would be lost. The
        # layers have the policy that is set.
        super().__init__(dtype="float32", autocast=False)
        self._scale = scale
        self.mel_basis = tf.constant(mel_basis, tf.float32)
        self._spread, self._offset = _spread_of(mel_basis)
        self._pitch_reader = PitchReader()
        self._first = keras.layers.Conv1D(shape.channels, KERNEL, padding="same")
        self._blocks = [
            Block(shape.channels, shape.hidden, 1.0 / shape.blocks) for _ in range(shape.blocks)
        ]
        self._norm = keras.layers.LayerNormalization(epsilon=1e-6, dtype="float32")
        small = keras.initializers.RandomNormal(stddev=0.01)
        # float32: an error in the logarithm of a magnitude is one in its size.
        self._gains = Dense(BINS, dtype="float32", kernel_initializer=small)
        self._turns = Dense(BINS, dtype="float32", kernel_initializer=small)
        self._bands = Dense(2 * MEL_BINS, dtype="float32", kernel_initializer=small)

    def inner_matrices(self) -> list[keras.Variable]:
        """The kernels between the networks' inputs and outputs: those Muon is made for."""
        own = [matrix for block in self._blocks for matrix in block.matrices]
        return own + self._pitch_reader.matrices

    def _normalised(self, mel: tf.Tensor) -> tf.Tensor:
        return (mel - self._scale.mel_mean) / self._scale.mel_std

    def pitch_of(self, mel: tf.Tensor) -> tf.Tensor:
        """How likely each pitch is, float32 (batch, frames, STEPS): see `pitch_reader`."""
        return self._pitch_reader(self._normalised(mel))

    def speak(self, mel: tf.Tensor) -> tf.Tensor:
        """Mels alone, float32 (batch, frames, 80), natural log -> float32 (batch, frames * 256)."""
        return self(mel, log_f0_of(self.pitch_of(mel)), tf.zeros([tf.shape(mel)[0]], tf.int32))

    def call(self, mel: tf.Tensor, log_f0: tf.Tensor, first_noise: tf.Tensor) -> tf.Tensor:
        """Speak mels whose pitch is known.

        Args:
            mel: float32 (batch, frames, 80), natural log
            log_f0: float (batch, frames), natural log of Hz, without gaps
            first_noise: int32 (batch,), where each row's noise begins

        Returns: float32 (batch, frames * 256)
        """
        known = self._scale
        pitch = (tf.cast(log_f0, tf.float32) - known.pitch_mean) / known.pitch_std
        x = tf.concat([self._normalised(mel), pitch[:, :, tf.newaxis]], axis=2)
        x = self._first(x)
        for block in self._blocks:
            x = block(x)
        x = self._norm(x)
        bands = self._bands(x)
        spread = tf.constant(self._spread)
        depth = tf.sigmoid(product(bands[..., :MEL_BINS], spread))
        loudness = product(mel, spread) + self._offset
        source = excitation_of(log_f0)
        voice = loudness + self._gains(x) + depth * source.log_lobe
        voice = tf.exp(tf.minimum(voice, _LOUDEST))
        hiss = loudness + product(bands[..., MEL_BINS:], spread) + _FIRST_NOISE
        hiss = tf.exp(tf.minimum(hiss, _LOUDEST))
        phase = source.phase + self._turns(x)
        real, imaginary = noise_of(tf.shape(mel)[1], first_noise)
        return samples_of(
            voice * tf.cos(phase) + hiss * real, voice * tf.sin(phase) + hiss * imaginary
        )


def _spread_of(mel_basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What makes a rough log spectrum of a log mel: a matrix float32 (80, 513), then an offset (513,).

    Between the centres of two filters it lies between theirs; above the last one it falls slowly.
    """
    bins = np.arange(BINS)
    centres = (mel_basis * bins).sum(axis=1) / mel_basis.sum(axis=1)
    spread = np.stack([np.interp(bins, centres, row) for row in np.eye(MEL_BINS)])
    beyond_hz = np.maximum(0.0, (bins - centres[-1]) * SAMPLE_RATE / FFT)
    offset = -np.log(mel_basis.sum(axis=1)) @ spread - beyond_hz / 1000.0
    return spread.astype(np.float32), offset.astype(np.float32)


def build_generator(model_size: str, scale: Scale, mel_basis: np.ndarray) -> Generator:
    """A generator with its weights made, by the global Keras seed and dtype policy."""
    model = Generator(SHAPES[model_size], scale, mel_basis)
    model.speak(tf.zeros([1, 4, MEL_BINS]))
    model.built = True
    return model
