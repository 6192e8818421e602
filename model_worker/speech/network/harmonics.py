"""What a voice's fundamental frequency does to a mel: a ripple in the low bins for each harmonic.

The ripples of a steady, flat pulse train are computed once for a table of frequencies. The decoder
then only has to say how strong they are; learning to draw them from a pitch value takes a network
far longer than learning everything else.
"""

import functools

import numpy as np
import tensorflow as tf

from shared.speech.mel import FFT, SAMPLE_RATE

RIPPLE_BINS = 48
TABLE_SIZE = 512
MIN_PITCH_HZ = 50.0
MAX_PITCH_HZ = 600.0
_STEP = np.log(MAX_PITCH_HZ / MIN_PITCH_HZ) / (TABLE_SIZE - 1)


def _slaney_centres(num_bins: int = 80, fmax_hz: float = 8000.0) -> np.ndarray:
    """Edges and centres of the mel bins in Hz: linear below 1 kHz, logarithmic above.

    Returns: (num_bins + 2,)
    """
    log_step = np.log(6.4) / 27.0
    top = 15.0 + np.log(fmax_hz / 1000.0) / log_step
    mels = np.linspace(0.0, top, num_bins + 2)
    return np.where(mels < 15.0, mels * 200.0 / 3.0, 1000.0 * np.exp(log_step * (mels - 15.0)))


@functools.lru_cache(maxsize=1)
def _ripple_table() -> np.ndarray:
    """Log mel of a pulse train less its own envelope: float32 (TABLE_SIZE, RIPPLE_BINS)."""
    edges = _slaney_centres()
    fft_hz = np.arange(FFT // 2 + 1) * SAMPLE_RATE / FFT
    rising = (fft_hz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - fft_hz) / np.diff(edges)[1:, None]
    basis = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    lobe_hz = np.linspace(-200.0, 200.0, 4001)
    window = np.hanning(FFT + 1)[:-1]
    time = (np.arange(FFT) - FFT / 2) / SAMPLE_RATE
    lobe = np.square((window * np.cos(2 * np.pi * lobe_hz[:, None] * time)).sum(axis=1))
    table = np.zeros([TABLE_SIZE, RIPPLE_BINS])
    for row in range(TABLE_SIZE):
        pitch_hz = MIN_PITCH_HZ * np.exp(row * _STEP)
        harmonics_hz = np.arange(1, int(4000.0 / pitch_hz) + 1) * pitch_hz
        power = np.interp(fft_hz[:, None] - harmonics_hz, lobe_hz, lobe, 0.0, 0.0).sum(axis=1)
        ripple = np.log(np.maximum(basis @ np.sqrt(power + 1e-2), 1e-3))[:RIPPLE_BINS]
        half = int(np.ceil(pitch_hz / (edges[1] - edges[0])))
        smooth = np.convolve(
            np.pad(ripple, half, mode="reflect"),
            np.ones(2 * half + 1) / (2 * half + 1),
            mode="valid",
        )
        table[row] = np.clip(ripple - smooth, -2.0, 2.0)
    return table.astype(np.float32)


def ripples(log_pitch: tf.Tensor) -> tf.Tensor:
    """Ripples of a pitch contour; no gradient flows through it.

    Args: log_pitch float32 (batch, frames), natural log of Hz
    Returns: float32 (batch, frames, RIPPLE_BINS), in units of natural log mel
    """
    row = tf.round((log_pitch - np.log(MIN_PITCH_HZ)) / _STEP)
    # Limited as a float, because GPUs compare no int32; what is not a number has row 0.
    row = tf.minimum(tf.where(row > 0.0, row, 0.0), TABLE_SIZE - 1.0)
    return tf.gather(tf.constant(_ripple_table()), tf.cast(row, tf.int32))
