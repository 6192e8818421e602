"""One utterance from its file to audio at 22,050 Hz, and to the padded row for the features."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import soundfile

from shared.errors import ReadError
from shared.speech.mel import HOP, PAD, SAMPLE_RATE, frames_of, reflected
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
_ALIGNMENT_BYTES = 64  # at which TensorFlow takes an array over as it is


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


def pad_length(num_frames: int) -> int:
    """Samples in a row that holds `num_frames` mel frames."""
    return num_frames * HOP + 2 * PAD


class RowSpace:
    """One place for the rows of batch after batch, which TensorFlow takes over without a copy."""

    def __init__(self) -> None:
        self._space = np.empty(0, np.float32)

    def rows(self, num_rows: int, num_frames: int) -> np.ndarray:
        """Rows to be filled, float32 (num_rows, num_frames * 256 + 768), valid until the next call.

        What is computed from them must be there by then.
        """
        length = num_rows * pad_length(num_frames)
        if len(self._space) < length:
            space = np.empty(length + _ALIGNMENT_BYTES // 4, np.float32)
            self._space = space[-space.ctypes.data % _ALIGNMENT_BYTES // 4 :]
        return self._space[:length].reshape(num_rows, -1)


def fill_row(row: np.ndarray, audio: np.ndarray, first_frame: int = 0) -> None:
    """Write a row for the feature graph, float32 (num_frames * 256 + 768,), from `first_frame` on.

    The row starts with the frame's 384 samples of context (mirrored at the utterance's own ends)
    and is cut after its last whole frame; the rest is zero. So what the graph sees of an utterance
    does not depend on the length of the row it sits in.
    """
    own_frames = min(frames_of(len(audio)) - first_frame, (len(row) - 2 * PAD) // HOP)
    used = pad_length(own_frames) if own_frames > 0 else 0
    row[used:] = 0.0
    if not used:
        return
    first = (
        first_frame * HOP - PAD
    )  # of the audio; before its beginning and behind its end, mirrored
    last, size = first + used, len(audio)
    if size <= PAD:
        row[:used] = reflected(audio)[first + PAD : last + PAD]
        return
    before, behind = max(0, -first), max(0, last - size)
    row[before : used - behind] = audio[first + before : last - behind]
    if before:
        row[:before] = audio[before:0:-1]
    if behind:
        row[used - behind : used] = audio[size - 2 : size - 2 - behind : -1]


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
