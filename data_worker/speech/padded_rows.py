"""The padded rows that the features are computed from."""

from __future__ import annotations

import numpy as np

from shared.speech.mel import HOP, PAD, frames_of, reflected

_ALIGNMENT_BYTES = 64  # at which TensorFlow takes an array over as it is


def pad_length(num_frames: int) -> int:
    """Samples in a row that holds `num_frames` mel frames."""
    return num_frames * HOP + 2 * PAD


class RowSpace:
    """Room for the rows of batch after batch, which TensorFlow takes over without a copy."""

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
