"""One utterance from its file to audio at 22,050 Hz, as the index says where it is.

Whoever imports this decodes: the decoder comes with it.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import soundfile

from shared.errors import ReadError
from shared.speech.mel import SAMPLE_RATE
from shared.speech.recording import (
    as_float,
    levelled,
    open_recording,
    peak_of,
    read_stored,
    resampled,
)

_SNDFILE_SYSTEM_ERROR = 2
_CHANGED = (
    "The file changed after the data was looked at. The run goes on without it; to use it, mend it "
    "and begin another run (--run-dir), or this one again with --fresh."
)


def load_utterance(
    path: str | Path,
    start: int,
    num_samples: int,
    sample_rate_expected: int,
    normalise: bool,
) -> np.ndarray:
    """The stretch [start, start + num_samples) of a file: mono float32 (samples,) at 22,050 Hz.

    `start` and `num_samples` count samples of the file itself; the result has exactly
    `resampled_length(num_samples, sample_rate_expected)` of them.

    Raises:
        ReadError: the file can't be decoded, is no longer what the index describes, or holds
            values that are not finite; `transient` if reading it again may help.
        OSError: it can't be opened or read.
    """
    audio = _to_mono(_decode(Path(path), start, num_samples, sample_rate_expected))
    if sample_rate_expected != SAMPLE_RATE:
        audio = resampled(as_float(audio), sample_rate_expected)
    peak = peak_of(audio)
    if not math.isfinite(peak):
        raise ReadError(
            f"{path}: holds samples that are not finite numbers. Export the recording again, or "
            f"take it out of the metadata."
        )
    return levelled(audio, peak) if normalise else as_float(audio)


def _decode(
    path: Path,
    start: int,
    num_samples: int,
    sample_rate_expected: int,
) -> np.ndarray:
    """(num_samples, channels), int16 or float32."""
    end = start + num_samples
    descriptor = open_recording(path)
    if descriptor is None:
        raise ReadError(f"{path}: is not a regular file. Put the recording itself there.")
    try:
        with soundfile.SoundFile(descriptor, closefd=False) as file:
            if file.samplerate != sample_rate_expected:
                raise ReadError(
                    f"{path}: has {file.samplerate} Hz; the index says {sample_rate_expected}. "
                    f"{_CHANGED}"
                )
            # Read from the beginning: compressed formats do not seek to an exact sample.
            audio = read_stored(file, end, as_it_is=sample_rate_expected == SAMPLE_RATE)
    except soundfile.LibsndfileError as error:
        raise ReadError(
            f"{path}: can't be decoded ({error.error_string.rstrip('.')}). "
            f"Convert the recording again, or take it out of the metadata.",
            transient=error.code == _SNDFILE_SYSTEM_ERROR,
        ) from error
    finally:
        os.close(descriptor)
    if len(audio) < end:
        raise ReadError(
            f"{path}: ends after {len(audio)} samples; the index says at least {end}. {_CHANGED}"
        )
    return audio[start:]


def _to_mono(samples: np.ndarray) -> np.ndarray:
    """The mean of the channels: (samples,), as they are stored where there is only one."""
    if samples.shape[1] == 1:
        return np.ascontiguousarray(samples[:, 0])
    return as_float(samples).mean(axis=1, dtype=np.float32)
