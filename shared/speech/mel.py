"""The mel spectrogram that vocoders of the HiFi-GAN family understand: numbers and reference.

The functions here are the definition, in plain numpy; the data process computes the same values
for whole batches in TensorFlow.
"""

from __future__ import annotations

import numpy as np

SAMPLE_RATE = 22_050
FFT = 1024
HOP = 256
MEL_BINS = 80
FMAX = 8_000
PAD = (FFT - HOP) // 2  # 384 reflected samples on each side give exactly samples // HOP frames
MAGNITUDE_FLOOR = 1e-9  # added to the squared magnitude
LOG_FLOOR = 1e-5  # mel values are clamped to this before the logarithm
SILENCE = float(np.log(LOG_FLOOR))  # the log mel of nothing
PEAK = 0.95  # of every clip, where loudness is evened out
MIN_F0_HZ, MAX_F0_HZ = 60.0, 500.0  # between which a voice's pitch is looked for


def frames_of(num_samples: int) -> int:
    """Mel frames of an utterance of `num_samples` at 22,050 Hz."""
    return num_samples // HOP


def resampled_length(num_samples: int, sample_rate: int) -> int:
    """Samples at 22,050 Hz that `num_samples` at `sample_rate` become, exactly."""
    return num_samples * SAMPLE_RATE // sample_rate


def hann_window() -> np.ndarray:
    """The periodic Hann window: float64 (1024,)."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)


def reflected(audio: np.ndarray) -> np.ndarray:
    """The utterance with PAD mirrored samples on each side: (samples + 768,).

    A clip shorter than the mirror is reflected back and forth, so that no length is a special case.
    """
    if audio.size == 0:
        return np.zeros(2 * PAD, audio.dtype)
    return np.pad(audio, PAD, mode="reflect")


def magnitudes(audio: np.ndarray) -> np.ndarray:
    """Magnitude spectrum sqrt(re² + im² + 1e-9) of an utterance: float64 (frames, 513)."""
    num_frames = frames_of(len(audio))
    if num_frames == 0:
        return np.zeros((0, FFT // 2 + 1))
    frames = np.lib.stride_tricks.sliding_window_view(reflected(audio), FFT)[::HOP][:num_frames]
    spectrum = np.fft.rfft(frames * hann_window())
    return np.sqrt(spectrum.real**2 + spectrum.imag**2 + MAGNITUDE_FLOOR)


def log_mel(audio: np.ndarray, mel_basis: np.ndarray) -> np.ndarray:
    """Natural-log mel spectrogram of an utterance, float32 (frames, 80).

    `audio` is (samples,) at 22,050 Hz; `mel_basis` the Slaney filters, (80, 513).
    """
    mel = magnitudes(audio) @ mel_basis.T.astype(np.float64)
    return np.log(np.maximum(mel, LOG_FLOOR)).astype(np.float32)


def energy(audio: np.ndarray) -> np.ndarray:
    """L2 norm of each frame's magnitude spectrum over its bins, float32 (frames,)."""
    return np.linalg.norm(magnitudes(audio), axis=1).astype(np.float32)
