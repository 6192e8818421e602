"""Log mel, energy and pitch of whole batches, in one TensorFlow graph per bucket shape.

An utterance's features are the same, bit for bit, wherever it sits: in any row, among any others,
in a batch of any size and length, computed by any number of threads. The feature cache relies on
that. So the frames of a batch, padding left out, go through the graph in chunks of one fixed size,
and every operation treats a frame the same at any place in its chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_worker.speech.audio import pad_length
from data_worker.speech.pitch import NEIGHBOURS, POWER_BINS, deepest_dip, voiced_hertz
from shared.speech.mel import FFT, HOP, LOG_FLOOR, MAGNITUDE_FLOOR, MEL_BINS, hann_window

# A multiple of 48, which the heights of all CPU kernels' tiles divide: the rows of an incomplete
# tile would be summed in another order. Larger chunks fall out of the processor's cache.
_CHUNK_FRAMES = 240
# A larger matrix product is split over its bins or over threads, and so is the order of its sums.
_PRODUCT_BINS = 64


class FeatureExtractor:
    """Turns padded audio rows into features, on the GPU if the process has one."""

    def __init__(self, mel_basis: np.ndarray):
        """`mel_basis`: mel filters, float32 (80, 513)."""
        # TensorFloat-32 would leave three digits of the mel.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        self._spectra = _Spectra(mel_basis)
        self._all = tf.function(self._trace_all, autograph=False)
        self._mel_only = tf.function(self._trace_mel, autograph=False)
        self.num_traces = 0

    def __call__(
        self, audio_rows: np.ndarray, mel_lengths: np.ndarray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Log mel (rows, frames, 80), energy (rows, frames), pitch in Hz (rows, frames); float32.

        `audio_rows` float32 (rows, frames * 256 + 768) as `audio.fill_row` makes them,
        `mel_lengths` int32 (rows,) the frames that are real. On padding: log(1e-5), 0 and 0.
        """
        return self._all(*_as_tensors(audio_rows, mel_lengths))

    def mel(self, audio_rows: np.ndarray, mel_lengths: np.ndarray) -> tf.Tensor:
        """The log mel alone, as above."""
        return self._mel_only(*_as_tensors(audio_rows, mel_lengths))

    def warm_up(self, num_rows: int, num_frames: int) -> None:
        """Build the graph of one bucket shape, so that its first batch does not wait for it."""
        rows = np.zeros((num_rows, pad_length(num_frames)), np.float32)
        self(rows, np.ones(num_rows, np.int32))

    def _trace_all(
        self, audio: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        self.num_traces += 1
        line, hops = _line_up(audio, lengths)

        def chunk_features(hop: tf.Tensor, is_real: tf.Tensor) -> tuple[tf.Tensor, ...]:
            power = self._spectra.power(hops, hop)
            # A frame beyond an utterance's end is silent for its neighbours.
            low = tf.where(is_real[:, None], power[:, :POWER_BINS], 0.0)
            power, is_real = power[NEIGHBOURS:-NEIGHBOURS], is_real[NEIGHBOURS:-NEIGHBOURS]
            mel = self._spectra.log_mel(power, is_real)
            energy = tf.where(is_real, tf.sqrt(tf.reduce_sum(power, axis=1)), 0.0)
            return mel, energy, *deepest_dip(low)

        results = _by_chunks(chunk_features, line, (MEL_BINS,), (), (), ())
        mel, energy, depth, hertz = (tf.gather(result, line.place) for result in results)
        return mel, energy, voiced_hertz(depth, hertz, energy, lengths)

    def _trace_mel(self, audio: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        self.num_traces += 1
        line, hops = _line_up(audio, lengths)

        def chunk_mel(hop: tf.Tensor, is_real: tf.Tensor) -> tuple[tf.Tensor, ...]:
            hop, is_real = hop[NEIGHBOURS:-NEIGHBOURS], is_real[NEIGHBOURS:-NEIGHBOURS]
            return (self._spectra.log_mel(self._spectra.power(hops, hop), is_real),)

        (mel,) = _by_chunks(chunk_mel, line, (MEL_BINS,))
        return tf.gather(mel, line.place)


class _Spectra:
    """Spectra of frames and what the mel filters make of them, in the HiFi-GAN convention."""

    def __init__(self, mel_basis: np.ndarray):
        self._filters = _in_blocks(np.asarray(mel_basis, np.float32))
        self._window = hann_window()

    def power(self, hops: tf.Tensor, hop: tf.Tensor) -> tf.Tensor:
        """|spectrum|² + 1e-9, float32 (frames, 513), of the frames that begin at `hop` (frames,).

        `hops` is all audio, float32 (hops, 256). Double precision up to the spectrum, because in
        single precision the rounding of a loud vowel is as large as what there is near 8 kHz, and
        puts the log mel there wrong by more than 0.001.
        """
        framed = tf.gather(hops, hop[:, None] + np.arange(FFT // HOP, dtype=np.int32))
        framed = tf.reshape(framed, (hop.shape[0], FFT))
        windowed = tf.cast(framed, tf.float64) * self._window
        spectrum = tf.cast(tf.signal.rfft(windowed), tf.complex64)
        squares = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
        return squares + MAGNITUDE_FLOOR

    def log_mel(self, power: tf.Tensor, is_real: tf.Tensor) -> tf.Tensor:
        """(frames, 513) to (frames, 80); the floor where `is_real` (frames,) is False."""
        magnitude = tf.sqrt(power)
        mel = [tf.matmul(magnitude[:, first:last], f) for first, last, f in self._filters]
        log_mel = tf.math.log(tf.maximum(tf.concat(mel, axis=1), LOG_FLOOR))
        return tf.where(is_real[:, None], log_mel, math.log(LOG_FLOOR))


def _as_tensors(audio_rows: np.ndarray, mel_lengths: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    """Not `tf.constant`, which copies even what lies as TensorFlow wants it."""
    return tf.convert_to_tensor(audio_rows), tf.convert_to_tensor(mel_lengths, tf.int32)


def _in_blocks(mel_basis: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
    """Neighbouring filters that span at most 64 bins: first bin, last bin + 1, (bins, filters)."""
    blocks, low = [], 0
    used = [np.flatnonzero(row) for row in mel_basis]
    while low < len(used):
        high = low + 1
        while high < len(used) and used[high][-1] - used[low][0] < _PRODUCT_BINS:
            high += 1
        first, last = int(used[low][0]), int(used[high - 1][-1]) + 1
        blocks.append((first, last, np.ascontiguousarray(mel_basis[low:high, first:last].T)))
        low = high
    return blocks


class _Line(NamedTuple):
    """All real frames of a batch in one line, with two frames of nothing around each utterance."""

    hop: tf.Tensor  # int32 (line,): where each frame begins
    is_real: tf.Tensor  # bool (line,): False on the frames of nothing
    num_chunks: tf.Tensor  # int32 (): chunks until the last real frame
    place: tf.Tensor  # int32 (rows, frames): where in the chunks' results a frame's are; those of
    # padding are at the frame of nothing that follows the utterance


def _line_up(audio: tf.Tensor, lengths: tf.Tensor) -> tuple[_Line, tf.Tensor]:
    """The line of a batch, and its audio in hops, float32 (hops, 256)."""
    rows, frames = audio.shape[0], (audio.shape[1] - pad_length(0)) // HOP
    hops_per_row = audio.shape[1] // HOP
    starts = NEIGHBOURS + tf.cumsum(lengths + NEIGHBOURS, exclusive=True)
    num_chunks = -(-tf.reduce_sum(lengths + NEIGHBOURS) // _CHUNK_FRAMES)
    max_chunks = -(-rows * (frames + NEIGHBOURS) // _CHUNK_FRAMES)
    at = tf.range(max_chunks * _CHUNK_FRAMES + 2 * NEIGHBOURS)
    row = tf.maximum(tf.searchsorted(starts, at, side="right") - 1, 0)
    frame = at - tf.gather(starts, row)
    is_real = (frame >= 0) & (frame < tf.gather(lengths, row))
    hop = tf.where(is_real, row * hops_per_row + frame, 0)
    place = starts[:, None] - NEIGHBOURS + tf.minimum(tf.range(frames), lengths[:, None])
    return _Line(hop, is_real, num_chunks, place), tf.reshape(audio, (-1, HOP))


def _by_chunks(
    compute: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, ...]],
    line: _Line,
    *shapes: tuple[int, ...],
) -> list[tf.Tensor]:
    """`compute` over the line; results (frames of all chunks, *shape), float32.

    It gets the hops and reality of a chunk's frames and of two neighbours on each side, and returns
    values for the frames without the neighbours.
    """

    def one(chunk: tf.Tensor) -> tuple[tf.Tensor, ...]:
        start = [chunk * _CHUNK_FRAMES]
        size = [_CHUNK_FRAMES + 2 * NEIGHBOURS]
        return compute(tf.slice(line.hop, start, size), tf.slice(line.is_real, start, size))

    signature = tuple(tf.TensorSpec((_CHUNK_FRAMES, *shape), tf.float32) for shape in shapes)
    results = tf.map_fn(one, tf.range(line.num_chunks), fn_output_signature=signature)
    return [tf.reshape(result, (-1, *shape)) for result, shape in zip(results, shapes, strict=True)]
