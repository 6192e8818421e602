"""Monotonic alignment of symbols and frames, in the graph, and what follows from it.

A path is a one-hot matrix (batch, frames, symbols): every real frame belongs to one symbol, symbols
are passed in order and none is left out. Multiplying by the path is how symbol states are stretched
to frames and frame values averaged over symbols; unlike a gather its gradient is a plain product,
the same on every run and device.
"""

import tensorflow as tf

IMPOSSIBLE = -1e9
# How far the path may be from a reading at constant speed while `diagonal_weight` acts, in texts.
DIAGONAL_WIDTH = 0.2


def length_mask(lengths: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """1.0 at real positions. lengths int32 (batch,) -> float32 (batch, size)."""
    return tf.cast(tf.range(size)[tf.newaxis] < lengths[:, tf.newaxis], tf.float32)


def path_of_durations(durations: tf.Tensor, num_frames: int | tf.Tensor) -> tf.Tensor:
    """Stretch whole durations to a path.

    Args:
        durations: int32 (batch, symbols), 0 at padding
        num_frames: size of the frame axis; longer sums are cut

    Returns: float32 (batch, num_frames, symbols)
    """
    ends = tf.cumsum(durations, axis=1)
    frame = tf.range(num_frames)[tf.newaxis, :, tf.newaxis]
    return tf.cast(
        (frame < ends[:, tf.newaxis]) & (frame >= (ends - durations)[:, tf.newaxis]), tf.float32
    )


def place_in_symbol(durations: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
    """Where in its symbol each frame is: a decoder of small reach can't see it from the states.

    Args: durations int32 (batch, symbols); path float32 (batch, frames, symbols)
    Returns: float32 (batch, frames, 4): share passed; frames passed, frames to come and length, all
        three in log scale
    """
    durations = tf.cast(durations, tf.float32)
    starts = tf.cumsum(durations, axis=1, exclusive=True)
    stretched = tf.matmul(path, tf.stack([starts, durations], axis=2))
    is_real = tf.reduce_max(path, axis=2)
    frame = tf.cast(tf.range(tf.shape(path)[1]), tf.float32)[tf.newaxis]
    length = stretched[..., 1]
    passed = (frame - stretched[..., 0] + 0.5) * is_real
    to_come = tf.maximum(length - passed, 0.0)
    share = passed / tf.maximum(length, 1.0)
    return tf.stack(
        [
            share - 0.5 * is_real,
            tf.math.log1p(passed),
            tf.math.log1p(to_come),
            tf.math.log1p(length),
        ],
        axis=2,
    )


def contour(values: tf.Tensor, durations: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
    """A line through one value for each symbol: its own in the middle, halfway at the borders.

    Args: values float32, durations int32 (batch, symbols); path float32 (batch, frames, symbols)
    Returns: float32 (batch, frames)
    """
    is_last = tf.cumsum(tf.cast(durations > 0, tf.int32), axis=1, reverse=True) <= 1
    before = tf.concat([values[:, :1], values[:, :-1]], axis=1)
    after = tf.where(is_last, values, tf.concat([values[:, 1:], values[:, -1:]], axis=1))
    around = tf.matmul(path, tf.stack([values, before, after], axis=2))
    share = place_in_symbol(durations, path)[..., 0]
    towards = tf.where(share < 0, around[..., 1], around[..., 2])
    return around[..., 0] + tf.abs(share) * (towards - around[..., 0])


def mean_over_symbols(values: tf.Tensor, path: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Mean of a frame value over the counted frames of each symbol, 0 where there are none.

    Args: values, counted float32 (batch, frames); path float32 (batch, frames, symbols)
    Returns: float32 (batch, symbols)
    """
    sums = tf.matmul(tf.stack([values * counted, counted], axis=1), path)
    return sums[:, 0] / tf.maximum(sums[:, 1], 1.0)


def diagonal_penalty(
    symbol_lengths: tf.Tensor, mel_lengths: tf.Tensor, num_symbols: int, num_frames: int
) -> tf.Tensor:
    """How far each (frame, symbol) is from a reading at constant speed.

    Returns: float32 (batch, frames, symbols), at most 0
    """
    frame_share = (tf.cast(tf.range(num_frames), tf.float32) + 0.5)[tf.newaxis] / tf.cast(
        mel_lengths, tf.float32
    )[:, tf.newaxis]
    symbol_share = (tf.cast(tf.range(num_symbols), tf.float32) + 0.5)[tf.newaxis] / tf.cast(
        symbol_lengths, tf.float32
    )[:, tf.newaxis]
    off = (frame_share[:, :, tf.newaxis] - symbol_share[:, tf.newaxis, :]) / DIAGONAL_WIDTH
    return -0.5 * tf.square(off)


@tf.function(jit_compile=True, autograph=False)
def monotonic_path_durations(
    scores: tf.Tensor, symbol_lengths: tf.Tensor, mel_lengths: tf.Tensor
) -> tf.Tensor:
    """The best monotonic path through a score matrix, as durations.

    One scan over frames, vectorised over text, compiled on its own: one XLA loop instead of
    thousands of small operations. An utterance with fewer frames than symbols has no path: its last
    symbols get no frame.

    Args:
        scores: float32 (batch, frames, symbols), larger is better
        symbol_lengths, mel_lengths: int32 (batch,)

    Returns: int32 (batch, symbols); rows sum to mel_lengths.
    """
    shape = tf.shape(scores)
    batch, num_frames, num_symbols = shape[0], shape[1], shape[2]
    symbol = tf.range(num_symbols)[tf.newaxis]
    by_frame = tf.transpose(scores, [1, 0, 2])

    def advance(
        frame: tf.Tensor, best: tf.Tensor, came_by_step: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        stepped = tf.concat([tf.fill([batch, 1], IMPOSSIBLE), best[:, :-1]], axis=1)
        step = stepped > best
        reachable = tf.where(symbol <= frame, tf.maximum(best, stepped), IMPOSSIBLE)
        came_by_step = tf.tensor_scatter_nd_update(came_by_step, [[frame]], step[tf.newaxis])
        return frame + 1, reachable + by_frame[frame], came_by_step

    start = tf.where(symbol == 0, by_frame[0], IMPOSSIBLE)
    no_steps = tf.zeros([num_frames, batch, num_symbols], tf.bool)
    _, _, came_by_step = tf.while_loop(
        lambda frame, *_: frame < num_frames,
        advance,
        (tf.constant(1), start, no_steps),
        maximum_iterations=num_frames,
    )

    def retreat(
        frame: tf.Tensor, position: tf.Tensor, durations: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        is_real = frame < mel_lengths
        here = symbol == position[:, tf.newaxis]
        durations += tf.cast(here & is_real[:, tf.newaxis], tf.int32)
        step = tf.reduce_any(here & came_by_step[frame], axis=1) & is_real
        return frame - 1, position - tf.cast(step & (position > 0), tf.int32), durations

    last_symbol = tf.minimum(symbol_lengths, mel_lengths) - 1
    no_durations = tf.zeros([batch, num_symbols], tf.int32)
    _, _, durations = tf.while_loop(
        lambda frame, *_: frame >= 0,
        retreat,
        (num_frames - 1, last_symbol, no_durations),
        maximum_iterations=num_frames,
    )
    return durations


def align(
    prior_mel: tf.Tensor,
    mel: tf.Tensor,
    symbol_lengths: tf.Tensor,
    mel_lengths: tf.Tensor,
    diagonal_weight: tf.Tensor,
) -> tf.Tensor:
    """Durations of the likeliest path, each symbol a unit Gaussian around its prior mel.

    Args:
        prior_mel: float32 (batch, symbols, bins), normalised like the mel
        mel: float32 (batch, frames, bins)
        diagonal_weight: float32 scalar; holds the early, ignorant path to a constant speed

    Returns: int32 (batch, symbols), no gradient
    """
    prior_mel, mel = tf.stop_gradient(prior_mel), tf.stop_gradient(mel)
    scores = (
        tf.matmul(mel, prior_mel, transpose_b=True)
        - 0.5 * tf.reduce_sum(tf.square(prior_mel), axis=2)[:, tf.newaxis]
    )
    scores += diagonal_weight * diagonal_penalty(
        symbol_lengths, mel_lengths, tf.shape(prior_mel)[1], tf.shape(mel)[1]
    )
    return tf.stop_gradient(monotonic_path_durations(scores, symbol_lengths, mel_lengths))
