"""Mel to waveform without a trained vocoder: fast Griffin-Lim, batched, in the graph.

The mel is undone first (non-negative magnitudes whose mel comes closest), then phases are searched
with momentum (Perraudin, Balazs and Søndergaard 2013). The framing is that of the mels: 1024-point
periodic Hann, hop 256, 384 samples of padding on each side, so that `frames` frames give
`frames * 256` samples.
"""

import numpy as np
import tensorflow as tf

from shared.plan.buckets import round_up
from shared.speech.mel import FFT, HOP, MEL_BINS, PAD, SILENCE

ITERATIONS = 32
MOMENTUM = 0.99
MEL_UPDATES = 12
SMALLEST = 1e-5
FRAME_MULTIPLE = 64  # lengths are rounded up to it, so that a GPU meets few different ones


def _window() -> tf.Tensor:
    return tf.signal.hann_window(FFT, periodic=True)


def _synthesis_window() -> tf.Tensor:
    """The window by which frames are overlapped so that analysis and synthesis undo each other."""
    window = np.hanning(FFT + 1)[:-1]
    power = np.square(window).reshape(FFT // HOP, HOP).sum(axis=0)
    return tf.constant(window / np.tile(power, FFT // HOP), tf.float32)


def magnitudes_of_mel(log_mel: tf.Tensor, mel_basis: np.ndarray) -> tf.Tensor:
    """The non-negative spectrum whose mel is closest.

    Found by multiplicative updates from a clamped pseudo-inverse.

    Args: log_mel float32 (batch, frames, bins), natural log; mel_basis float32 (bins, FFT // 2 + 1)
    Returns: float32 (batch, frames, FFT // 2 + 1)
    """
    mel = tf.exp(log_mel)
    basis = tf.constant(mel_basis, tf.float32)
    inverse = tf.constant(np.linalg.pinv(mel_basis).T, tf.float32)
    magnitudes = tf.maximum(tf.tensordot(mel, inverse, 1), SMALLEST)
    wanted = tf.tensordot(mel, basis, 1)
    for _ in range(MEL_UPDATES):
        have = tf.tensordot(tf.tensordot(magnitudes, basis, [[2], [1]]), basis, 1)
        magnitudes = magnitudes * wanted / tf.maximum(have, 1e-8)
    return magnitudes


def waveform_of_mel(
    log_mel: tf.Tensor, mel_basis: np.ndarray, iterations: int = ITERATIONS
) -> tf.Tensor:
    """Speak mels. The same mel gives the same samples: first phases come from a fixed seed.

    Args: log_mel float32 (batch, frames, 80), HiFi-GAN convention; frames at the floor are silent
    Returns: float32 (batch, frames * HOP), in [-1, 1]
    """
    magnitudes = tf.cast(magnitudes_of_mel(log_mel, mel_basis), tf.complex64)
    window, synthesis = _window(), _synthesis_window()

    def samples_of(spectrum: tf.Tensor) -> tf.Tensor:
        frames = tf.signal.irfft(spectrum, [FFT]) * synthesis
        return tf.signal.overlap_and_add(frames, HOP)

    def spectrum_of(samples: tf.Tensor) -> tf.Tensor:
        return tf.signal.rfft(tf.signal.frame(samples, FFT, HOP) * window, [FFT])

    def search(
        iteration: tf.Tensor, spectrum: tf.Tensor, previous: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        rebuilt = spectrum_of(samples_of(spectrum))
        ahead = rebuilt + MOMENTUM * (rebuilt - previous)
        unit = ahead / tf.cast(tf.maximum(tf.abs(ahead), 1e-12), tf.complex64)
        return iteration + 1, magnitudes * unit, rebuilt

    angles = tf.random.stateless_uniform(tf.shape(magnitudes), seed=[1, 2], maxval=2 * np.pi)
    start = magnitudes * tf.complex(tf.cos(angles), tf.sin(angles))
    _, spectrum, _ = tf.while_loop(
        lambda iteration, *_: iteration < iterations,
        search,
        (tf.constant(0), start, tf.zeros_like(start)),
        maximum_iterations=iterations,
    )
    num_samples = tf.shape(log_mel)[1] * HOP
    samples = samples_of(spectrum)
    return tf.clip_by_value(samples[:, PAD : PAD + num_samples], -1.0, 1.0)


def with_silence(mel: np.ndarray) -> np.ndarray:
    """A mel (frames, 80) with silence behind it, to one of few different lengths."""
    missing = round_up(len(mel), FRAME_MULTIPLE) - len(mel)
    return np.pad(mel, ((0, missing), (0, 0)), constant_values=SILENCE)


class GriffinLim:
    """Needs no training; what it says is clear and a little metallic."""

    name = "Griffin-Lim"

    def __init__(self, mel_basis: np.ndarray):
        self._graph = tf.function(
            lambda mel: waveform_of_mel(mel, mel_basis),
            input_signature=[tf.TensorSpec([None, None, MEL_BINS], tf.float32)],
            autograph=False,
        )

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """mel float32 (frames, 80), natural log -> float32 (frames * HOP,)"""
        return self._graph(tf.constant(with_silence(mel)[np.newaxis]))[0, : len(mel) * HOP].numpy()
