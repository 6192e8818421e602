"""Log mel, energy and pitch of whole batches, in one TensorFlow graph per bucket shape.

An utterance's features are the same, bit for bit, wherever it sits: in any row, among any others,
in a batch of any size and length, computed by any number of threads. The feature cache relies on
that. So the frames of a batch, padding left out, go through the graph in chunks of one fixed size,
and every operation treats a frame the same at any place in its chunk.

On a processor all of it is done chunk by chunk, in its cache. To a GPU it is not the work that takes
time but the number of things to do: there, chunks are large, and hold only what might be computed in
another order for another number of frames, which are transforms and matrix products.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_worker.speech.padded_rows import pad_length
from data_worker.speech.pitch import (
    NEIGHBOURS,
    POWER_BINS,
    deepest_dip,
    lags_of,
    spectrum_of,
    voiced_hertz,
)
from shared.speech.mel import FFT, HOP, LOG_FLOOR, MAGNITUDE_FLOOR, MEL_BINS, hann_window

# A multiple of 48, which the heights of all CPU kernels' tiles divide: the rows of an incomplete
# tile would be summed in another order. Larger chunks fall out of the processor's cache.
_CHUNK_FRAMES = 240
_GPU_CHUNK_FRAMES = 8208
# A larger matrix product is split over its bins or over threads, and so is the order of its sums.
_PRODUCT_BINS = 64


class FeatureExtractor:
    """Turns padded audio rows into features, on the GPU if the process has one."""

    def __init__(self, mel_basis: np.ndarray, for_gpu: bool | None = None):
        """`mel_basis`: mel filters, float32 (80, 513).

        `for_gpu`: compute as on a GPU; None = if there is one.
        """
        # TensorFloat-32 would leave three digits of the mel.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        if for_gpu is None:
            for_gpu = bool(tf.config.list_logical_devices("GPU"))
        self._spectra = _Spectra(mel_basis, math.inf if for_gpu else _PRODUCT_BINS)
        all_of, mel_of = (
            (self._all_at_once, self._mel_at_once)
            if for_gpu
            else (self._all_by_chunks, self._mel_by_chunks)
        )
        self._all = tf.function(functools.partial(self._trace, all_of), autograph=False)
        self._mel_only = tf.function(functools.partial(self._trace, mel_of), autograph=False)
        self._chunk_frames = _GPU_CHUNK_FRAMES if for_gpu else _CHUNK_FRAMES
        self.num_traces = 0

    def __call__(self, audio_rows: np.ndarray, mel_lengths: np.ndarray) -> np.ndarray:
        """Log mel, energy and pitch in Hz, float32 (rows, frames, 82).

        `audio_rows` float32 (rows, frames * 256 + 768) as `fill_row` makes them,
        `mel_lengths` int32 (rows,) the frames that are real. On padding: log(1e-5), 0 and 0.
        """
        return self._all(*_as_tensors(audio_rows, mel_lengths)).numpy()

    def mel(self, audio_rows: np.ndarray, mel_lengths: np.ndarray) -> np.ndarray:
        """The log mel alone, float32 (rows, frames, 80), as above."""
        return self._mel_only(*_as_tensors(audio_rows, mel_lengths)).numpy()

    def warm_up(self, num_rows: int, num_frames: int) -> None:
        """Build the graph of one bucket shape, so that its first batch does not wait for it."""
        rows = np.zeros((num_rows, pad_length(num_frames)), np.float32)
        self(rows, np.ones(num_rows, np.int32))

    def _trace(self, compute: Callable, audio: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        self.num_traces += 1
        line = _line_up(audio, lengths, self._chunk_frames)
        return compute(line, tf.reshape(audio, (-1, HOP)), lengths)

    def _all_by_chunks(self, line: _Line, hops: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        def chunk_features(hop: tf.Tensor, is_real: tf.Tensor) -> tuple[tf.Tensor, ...]:
            power = self._spectra.power(hops, hop)
            low = _silent_beyond(is_real, power)
            power, is_real = power[NEIGHBOURS:-NEIGHBOURS], is_real[NEIGHBOURS:-NEIGHBOURS]
            mel = _log_mel(self._spectra.mel(power), is_real)
            return mel, _energy(power, is_real), *deepest_dip(low)

        results = _by_chunks(chunk_features, line, self._chunk_frames, (MEL_BINS,), (), (), ())
        mel, energy, depth, hertz = (tf.gather(result, line.place) for result in results)
        return _columns(mel, energy, voiced_hertz(depth, hertz, energy, lengths))

    def _mel_by_chunks(self, line: _Line, hops: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        def chunk_mel(hop: tf.Tensor, is_real: tf.Tensor) -> tuple[tf.Tensor, ...]:
            hop, is_real = hop[NEIGHBOURS:-NEIGHBOURS], is_real[NEIGHBOURS:-NEIGHBOURS]
            return (_log_mel(self._spectra.mel(self._spectra.power(hops, hop)), is_real),)

        (mel,) = _by_chunks(chunk_mel, line, self._chunk_frames, (MEL_BINS,))
        return tf.gather(mel, line.place)

    def _all_at_once(self, line: _Line, hops: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        power, mel = self._in_large_chunks(line, hops)
        is_real = line.is_real[NEIGHBOURS:-NEIGHBOURS]
        mel, energy = _log_mel(mel, is_real), _energy(power, is_real)
        around = [(NEIGHBOURS, NEIGHBOURS), (0, 0)]
        low = tf.pad(_silent_beyond(is_real, power), around)
        depth, hertz = deepest_dip(low, lambda power: _chunked(lags_of, spectrum_of(power)))
        mel, energy, depth, hertz = (
            tf.gather(each, line.place) for each in (mel, energy, depth, hertz)
        )
        return _columns(mel, energy, voiced_hertz(depth, hertz, energy, lengths))

    def _mel_at_once(self, line: _Line, hops: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        _, mel = self._in_large_chunks(line, hops)
        return tf.gather(_log_mel(mel, line.is_real[NEIGHBOURS:-NEIGHBOURS]), line.place)

    def _in_large_chunks(self, line: _Line, hops: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Power (frames, 513) and mel (frames, 80) of the line without the neighbours at its ends."""
        hop = line.hop[NEIGHBOURS:-NEIGHBOURS]
        power = _power_of(_chunked(functools.partial(self._spectra.transform, hops), hop))
        return power, _chunked(self._spectra.filtered, tf.sqrt(power))


class _Spectra:
    """Spectra of frames and what the mel filters make of them, in the HiFi-GAN convention."""

    def __init__(self, mel_basis: np.ndarray, most_bins: float):
        self._filters = _in_blocks(np.asarray(mel_basis, np.float32), most_bins)
        self._window = hann_window()

    def power(self, hops: tf.Tensor, hop: tf.Tensor) -> tf.Tensor:
        """|spectrum|² + 1e-9, float32 (frames, 513), of the frames that begin at `hop` (frames,).

        `hops` is all audio, float32 (hops, 256).
        """
        return _power_of(self.transform(hops, hop))

    def transform(self, hops: tf.Tensor, hop: tf.Tensor) -> tf.Tensor:
        """The spectrum, complex64 (frames, 513).

        Double precision up to there, because in single precision the rounding of a loud vowel is as
        large as what there is near 8 kHz, and puts the log mel there wrong by more than 0.001.
        """
        with tf.device("/CPU:0"):  # as all counting
            hops_of_frames = hop[:, None] + np.arange(FFT // HOP, dtype=np.int32)
        framed = tf.gather(hops, hops_of_frames)
        framed = tf.reshape(framed, (hop.shape[0], FFT))
        windowed = tf.cast(framed, tf.float64) * self._window
        return tf.cast(tf.signal.rfft(windowed), tf.complex64)

    def mel(self, power: tf.Tensor) -> tf.Tensor:
        """(frames, 513) to (frames, 80), not yet the logarithm."""
        return self.filtered(tf.sqrt(power))

    def filtered(self, magnitude: tf.Tensor) -> tf.Tensor:
        """The same of the square root."""
        mel = [tf.matmul(magnitude[:, first:last], f) for first, last, f in self._filters]
        return tf.concat(mel, axis=1)


def _power_of(spectrum: tf.Tensor) -> tf.Tensor:
    squares = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    return squares + MAGNITUDE_FLOOR


def _log_mel(mel: tf.Tensor, is_real: tf.Tensor) -> tf.Tensor:
    """The floor where `is_real` (frames,) is False."""
    log_mel = tf.math.log(tf.maximum(mel, LOG_FLOOR))
    return tf.where(is_real[:, None], log_mel, math.log(LOG_FLOOR))


def _energy(power: tf.Tensor, is_real: tf.Tensor) -> tf.Tensor:
    return tf.where(is_real, tf.sqrt(tf.reduce_sum(power, axis=1)), 0.0)


def _silent_beyond(is_real: tf.Tensor, power: tf.Tensor) -> tf.Tensor:
    """What pitch needs of the power; a frame beyond an utterance's end is silent for its neighbours."""
    return tf.where(is_real[:, None], power[:, :POWER_BINS], 0.0)


def _columns(mel: tf.Tensor, energy: tf.Tensor, pitch: tf.Tensor) -> tf.Tensor:
    """All in one (rows, frames, 82): a GPU's results come back in one piece."""
    return tf.concat([mel, energy[:, :, None], pitch[:, :, None]], axis=2)


def _chunked(compute: Callable[[tf.Tensor], tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """`compute` on all of (frames, …), by large chunks; frames are a multiple of those."""
    size = _GPU_CHUNK_FRAMES
    starts = range(0, values.shape[0], size)
    return tf.concat([compute(values[start : start + size]) for start in starts], axis=0)


def _as_tensors(audio_rows: np.ndarray, mel_lengths: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    """Not `tf.constant`, which copies even what lies as TensorFlow wants it."""
    with tf.device("/CPU:0"):  # lengths are the host's, whatever computes the rest
        lengths = tf.convert_to_tensor(mel_lengths, tf.int32)
    return tf.convert_to_tensor(audio_rows), lengths


def _in_blocks(mel_basis: np.ndarray, most_bins: float) -> list[tuple[int, int, np.ndarray]]:
    """Neighbouring filters that span so many bins: first bin, last bin + 1, (bins, filters)."""
    blocks, low = [], 0
    used = [np.flatnonzero(row) for row in mel_basis]
    while low < len(used):
        high = low + 1
        while high < len(used) and used[high][-1] - used[low][0] < most_bins:
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


def _line_up(audio: tf.Tensor, lengths: tf.Tensor, chunk_frames: int) -> _Line:
    """The line of a batch. Lengths are known to the host, and so it is the host that counts."""
    rows, frames = audio.shape[0], (audio.shape[1] - pad_length(0)) // HOP
    hops_per_row = audio.shape[1] // HOP
    max_chunks = -(-rows * (frames + NEIGHBOURS) // chunk_frames)
    with tf.device("/CPU:0"):
        starts = NEIGHBOURS + tf.cumsum(lengths + NEIGHBOURS, exclusive=True)
        num_chunks = -(-tf.reduce_sum(lengths + NEIGHBOURS) // chunk_frames)
        at = tf.range(max_chunks * chunk_frames + 2 * NEIGHBOURS)
        row = tf.maximum(tf.searchsorted(starts, at, side="right") - 1, 0)
        frame = at - tf.gather(starts, row)
        is_real = (frame >= 0) & (frame < tf.gather(lengths, row))
        hop = tf.where(is_real, row * hops_per_row + frame, 0)
        place = starts[:, None] - NEIGHBOURS + tf.minimum(tf.range(frames), lengths[:, None])
    return _Line(hop, is_real, num_chunks, place)


def _by_chunks(
    compute: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, ...]],
    line: _Line,
    chunk_frames: int,
    *shapes: tuple[int, ...],
) -> list[tf.Tensor]:
    """`compute` over the line; results (frames of all chunks, *shape), float32.

    It gets the hops and reality of a chunk's frames and of two neighbours on each side, and returns
    values for the frames without the neighbours.
    """

    def one(chunk: tf.Tensor) -> tuple[tf.Tensor, ...]:
        start = [chunk * chunk_frames]
        size = [chunk_frames + 2 * NEIGHBOURS]
        return compute(tf.slice(line.hop, start, size), tf.slice(line.is_real, start, size))

    signature = tuple(tf.TensorSpec((chunk_frames, *shape), tf.float32) for shape in shapes)
    results = tf.map_fn(one, tf.range(line.num_chunks), fn_output_signature=signature)
    return [tf.reshape(result, (-1, *shape)) for result, shape in zip(results, shapes, strict=True)]
