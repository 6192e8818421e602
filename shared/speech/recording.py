"""From a recording to samples as the features want them: read, resampled, levelled.

The corpus and a recording whose voice is spoken in go the same way. Whoever imports this may not have
the decoder and the resampler loaded yet: both come with the first use.
"""

from __future__ import annotations

import os
import stat
import typing
from pathlib import Path

import numpy as np

from shared.speech.mel import PEAK, SAMPLE_RATE, resampled_length

if typing.TYPE_CHECKING:
    import soundfile

# Keeps digital silence from being divided by its own zero peak.
_SMALLEST_PEAK = 1e-5
_PCM_16_STEP = np.float32(1 / 32_768)  # a power of two: no bit is rounded away


def open_recording(path: str | Path) -> int | None:
    """A descriptor of a file to read; None for anything else that bears the name.

    Raises:
        OSError, ValueError: there is nothing that can be opened.
    """
    # O_NONBLOCK: a named pipe put in the file's place would block the reader for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


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
    factor = np.float32(scale)
    if samples.dtype == np.int16:
        return np.multiply(samples, _PCM_16_STEP * factor, dtype=np.float32)
    return samples if factor == 1.0 else np.multiply(samples, factor, out=samples)


def peak_of(samples: np.ndarray) -> float:
    """The largest distance from zero of stored samples; not finite if any sample is not."""
    peak = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
    return peak * float(_PCM_16_STEP) if samples.dtype == np.int16 else peak


def resampled(audio: np.ndarray, sample_rate: int) -> np.ndarray:
    """float32 at 22,050 Hz, of exactly the length that the index and the plan count with."""
    import soxr

    length = resampled_length(len(audio), sample_rate)
    found = soxr.resample(audio, sample_rate, SAMPLE_RATE)[:length]
    missing = length - len(found)
    return np.pad(found, (0, missing)) if missing else found


def levelled(audio: np.ndarray, peak: float) -> np.ndarray:
    """Samples whose peak is known, with the peak that every clip is brought to."""
    return as_float(audio, PEAK / max(peak, _SMALLEST_PEAK))
