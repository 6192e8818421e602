"""Pitch of whole batches in TensorFlow: YIN on the spectra that the mel has already paid for.

A frame's power spectrum is the Fourier transform of its autocorrelation, so pitch costs one small
inverse transform per frame. Voicing is decided as by a hidden Markov model of two states, solved
exactly and without a loop over time. All operations treat frames or utterances independently: the
result of an utterance does not depend on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from shared.speech.mel import FFT, MAX_F0_HZ, MIN_F0_HZ, SAMPLE_RATE, hann_window

POWER_BINS = 101  # bins 0…100 of the spectrum, up to 2.15 kHz: the harmonics that carry pitch
_RUMBLE_BINS = 2  # DC and its leakage
_TRANSFORM = 256  # the inverse transform; its lags are 4 samples apart
_LAG_SAMPLES = FFT // _TRANSFORM
_FIRST_LAG = int(SAMPLE_RATE / MAX_F0_HZ / _LAG_SAMPLES)
_LAST_LAG = int(np.ceil(SAMPLE_RATE / MIN_F0_HZ / _LAG_SAMPLES))
_NUM_LAGS = _LAST_LAG + 2
# Vectorised and single evaluation of a logarithm differ in the last bit; with whole vectors of
# frames there is no remainder that would be evaluated singly.
_VECTOR_FRAMES = 16
# Two periods are a period too: of equally deep dips the first one counts.
_OCTAVE_PENALTY = 0.03
_LAG_PENALTY = (
    _OCTAVE_PENALTY * np.log2(np.arange(_FIRST_LAG, _LAST_LAG + 1) / _FIRST_LAG)
).astype(np.float32)
NEIGHBOURS = 2  # frames on each side whose autocorrelations are added: together 2048 samples

# Voicing, in nats. The prior over thresholds and the cost of a change are pYIN's (Mauch and Dixon,
# 2014); a frame without a clear dip is slightly in favour of going on if its pitch goes on.
_NUM_PITCHES = 368.0  # pYIN's pitch states between 60 and 500 Hz, over which "unvoiced" is spread
_WEAKEST_DIP = 0.004
_CHANGE_COST = 4.6
_JUMP_SEMITONES = 3.0  # a faster change of pitch from one frame to the next breaks the voice
_SILENCE_DB = 45.0  # frames this far below the loudest are not voiced
_SILENCE_ENERGY = 0.02  # about -87 dB of full scale: digital silence and dither
_SILENCE_NATS = -3.0
_UNBOUNDED = 1e9


def deepest_dip(
    power: tf.Tensor, transform: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Depth (0 perfectly periodic, 1 not at all) and pitch in Hz of frames; each (frames,).

    `power` is |spectrum|² of the first POWER_BINS bins of the frames and of NEIGHBOURS more on each
    side, (frames + 2 * NEIGHBOURS, POWER_BINS). `transform` stands in for `autocorrelation`.
    """
    return _minimum(_difference((transform or autocorrelation)(_add_neighbours(power))))


def voiced_hertz(
    depth: tf.Tensor, hertz: tf.Tensor, energy: tf.Tensor, lengths: tf.Tensor
) -> tf.Tensor:
    """Pitch in Hz where a frame is voiced, 0 elsewhere; all (rows, frames), float32.

    `energy` is 0 on padding; `lengths` (rows,) counts the frames that are real.
    """
    frames = depth.shape[1]
    extra = [(0, 0), (0, -frames % _VECTOR_FRAMES)]
    depth, energy = tf.pad(depth, extra), tf.pad(energy, extra)
    hertz = tf.pad(hertz, extra, constant_values=MIN_F0_HZ)
    is_voiced = _is_voiced(_evidence(depth, energy), hertz, lengths)
    return tf.where(is_voiced, hertz, 0.0)[:, :frames]


def _add_neighbours(power: tf.Tensor) -> tf.Tensor:
    """Each frame plus its neighbours, (frames + 2 * NEIGHBOURS, bins) to (frames, bins)."""
    frames = power.shape[0] - 2 * NEIGHBOURS
    used = power[:, _RUMBLE_BINS:]
    return tf.add_n([used[k : k + frames] for k in range(2 * NEIGHBOURS + 1)])


def autocorrelation(power: tf.Tensor) -> tf.Tensor:
    """At lags 0 … _LAST_LAG + 1 of frames' power (frames, POWER_BINS - _RUMBLE_BINS)."""
    return lags_of(spectrum_of(power))


def spectrum_of(power: tf.Tensor) -> tf.Tensor:
    """What is transformed to the autocorrelation, complex64 (frames, 129)."""
    spectrum = tf.pad(power, [(0, 0), (_RUMBLE_BINS, _TRANSFORM // 2 + 1 - POWER_BINS)])
    return tf.cast(spectrum, tf.complex64)


def lags_of(spectrum: tf.Tensor) -> tf.Tensor:
    """The autocorrelation of it."""
    return tf.signal.irfft(spectrum, [_TRANSFORM])[:, :_NUM_LAGS]


def _difference(correlation: tf.Tensor) -> tf.Tensor:
    """YIN's cumulative mean normalised difference, (frames, lags 0 … _LAST_LAG + 1)."""
    # The tiny term makes digital silence a frame without period instead of 0 / 0.
    loudness = correlation[:, :1] + 1e-9
    difference = 1.0 - correlation / loudness * _WINDOW_COMPENSATION[:_NUM_LAGS]
    running = tf.maximum(tf.cumsum(difference, axis=1), 1e-6)
    return difference * np.arange(_NUM_LAGS, dtype=np.float32) / running


def _window_compensation() -> np.ndarray:
    """1 / autocorrelation of the Hann window at the lags of the transform, float32 (256,).

    Circular, as the transform of an unpadded frame is: long lags wrap around.
    """
    power = np.abs(np.fft.rfft(hann_window())) ** 2
    correlation = np.fft.irfft(power)[::_LAG_SAMPLES]
    return (correlation[0] / correlation).astype(np.float32)


_WINDOW_COMPENSATION = _window_compensation()


def _minimum(difference: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Depth and frequency of the deepest dip of the difference over lags; each (frames,)."""
    centre = difference[:, _FIRST_LAG : _LAST_LAG + 1]
    before = difference[:, _FIRST_LAG - 1 : _LAST_LAG]
    after = difference[:, _FIRST_LAG + 1 : _LAST_LAG + 2]
    # The vertex of the parabola through each dip and its neighbours. The lags are coarse for high
    # voices, whose second period would often win if it happened to lie nearer to one.
    slope = 0.5 * (before - after)
    shift = slope / tf.maximum(before + after - 2.0 * centre, 1e-6)
    depth = centre - 0.5 * slope * shift
    is_dip = (centre < before) & (centre <= after)
    score = tf.where(is_dip, depth, 2.0) + _LAG_PENALTY
    best = tf.argmin(score, axis=1, output_type=tf.int32)
    depth, shift = (tf.gather(values, best, batch_dims=1) for values in (depth, shift))
    # Added as a float: a GPU adds no int32.
    lag = tf.cast(best, tf.float32) + _FIRST_LAG + tf.clip_by_value(shift, -1.0, 1.0)
    hertz = SAMPLE_RATE / _LAG_SAMPLES / lag
    return tf.clip_by_value(depth, 0.0, 1.0), tf.clip_by_value(hertz, MIN_F0_HZ, MAX_F0_HZ)


def _evidence(depth: tf.Tensor, energy: tf.Tensor) -> tf.Tensor:
    """How much each frame speaks for "voiced", in nats, (rows, frames)."""
    # Share of pYIN's thresholds, distributed as Beta(2, 18), that lie above the dip.
    square = tf.square(1.0 - depth)
    share = square * tf.square(tf.square(tf.square(square))) * (1.0 + 18.0 * depth)
    share = tf.clip_by_value(share, _WEAKEST_DIP, 0.99)
    evidence = tf.math.log(share * _NUM_PITCHES / (1.0 - share))
    loudest = tf.reduce_max(energy, axis=1, keepdims=True)
    is_silent = energy < tf.maximum(loudest * 10 ** (-_SILENCE_DB / 20), _SILENCE_ENERGY)
    return tf.where(is_silent, _SILENCE_NATS, evidence)


def _is_voiced(evidence: tf.Tensor, hertz: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The most probable state of each frame of a chain of voiced and unvoiced, bool (rows, frames).

    With x the advantage of "voiced" so far and j the cost of staying voiced over a jump of pitch,
    one step of Viterbi's recursion is x ↦ evidence + clip(x - j, -change, change - j): an addition
    and a clipping, and so is any number of such steps after another. That makes it a prefix sum,
    run in both directions and added up.
    """
    octaves = tf.math.log(hertz) / np.log(2.0)
    semitones = 12.0 * tf.abs(octaves[:, 1:] - octaves[:, :-1])
    jump = -tf.math.log(tf.maximum(1.0 - semitones / _JUMP_SEMITONES, 1e-30))
    jump = tf.minimum(jump, 2 * _CHANGE_COST)
    before = tf.pad(jump, [(0, 0), (1, 0)])
    after = tf.pad(jump, [(0, 0), (0, 1)])
    frames = evidence.shape[1]
    # Lengths are known to the host, which also compares whole numbers for a GPU.
    with tf.device("/CPU:0"):
        is_real = tf.sequence_mask(lengths, frames)
        has_next = tf.sequence_mask(lengths - 1, frames)
        both_real = tf.concat([is_real, is_real[:, ::-1]], axis=0)
    # Padding is left out of the chain: no jump into it, no evidence in it.
    after = tf.where(has_next, after, 0.0)
    # Both directions together: what a GPU takes time for is the number of operations.
    both = _advantage(
        tf.concat([evidence, evidence[:, ::-1]], axis=0),
        tf.concat([before, after[:, ::-1]], axis=0),
        both_real,
    )
    rows = evidence.shape[0]
    return (both[:rows] + both[rows:, ::-1] - evidence > 0.0) & is_real


def _advantage(evidence: tf.Tensor, jump: tf.Tensor, is_real: tf.Tensor) -> tf.Tensor:
    """Viterbi's advantage of "voiced" after each frame, (rows, frames), by doubling steps."""
    add = tf.where(is_real, evidence - jump, 0.0)
    low = tf.where(is_real, evidence - _CHANGE_COST, -_UNBOUNDED)
    high = tf.where(is_real, evidence + _CHANGE_COST - jump, _UNBOUNDED)
    steps = tf.stack([add, low, high])
    nothing = np.array([0.0, -_UNBOUNDED, _UNBOUNDED], np.float32)[:, None, None]
    rows, frames = evidence.shape
    step = 1
    while step < frames:
        before_all = np.broadcast_to(nothing, (3, rows, step))
        earlier = tf.concat([before_all, steps[:, :, :-step]], axis=2)
        bounds = tf.clip_by_value(earlier[1:] + steps[:1], steps[1], steps[2])
        steps = tf.concat([steps[:1] + earlier[:1], bounds], axis=0)
        step *= 2
    return tf.clip_by_value(steps[0], steps[1], steps[2])
