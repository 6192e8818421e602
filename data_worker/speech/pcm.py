"""Samples of an open audio file, by the shorter way where there is one."""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    import soundfile

_PCM_16_STEP = np.float32(1 / 32_768)  # a power of two: no bit is rounded away


def read_stored(file: soundfile.SoundFile, count: int, as_it_is: bool = True) -> np.ndarray:
    """The next samples, at most `count`: (samples, channels), int16 where the file holds those.

    To turn the usual 16-bit samples of a wav into floats takes libsndfile three times as long as
    `as_float`. Those of a flac it makes itself: if floats are wanted anyway, and not `as_it_is`,
    they come at no cost.
    """
    is_whole = file.subtype == "PCM_16" and (as_it_is or file.format != "FLAC")
    dtype = "int16" if is_whole else "float32"
    return file.read(count, dtype=dtype, always_2d=True)


def as_float(samples: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Stored samples as float32 in [-1, 1], times `scale`: bit for bit as libsndfile has them.

    Floats are scaled where they are.
    """
    scale = np.float32(scale)
    if samples.dtype == np.int16:
        return np.multiply(samples, _PCM_16_STEP * scale, dtype=np.float32)
    return samples if scale == 1.0 else np.multiply(samples, scale, out=samples)


def peak_of(samples: np.ndarray) -> float:
    """The largest distance from zero of stored samples; not finite if any sample is not."""
    peak = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
    return peak * float(_PCM_16_STEP) if samples.dtype == np.int16 else peak
