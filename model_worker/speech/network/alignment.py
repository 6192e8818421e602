"""Monotonic alignment of symbols and frames, in the graph, and what follows from it.

A path is a one-hot matrix (batch, frames, symbols): every real frame belongs to one symbol, symbols
are passed in order and none is left out. Multiplying by the path is how symbol states are stretched
to frames and frame values averaged over symbols; unlike a gather its gradient is a plain product,
the same on every run and device.
"""

import tensorflow as tf

IMPOSSIBLE = -1e9
# Of the search, in one turn of its loop. On a GPU the host launches five things in each turn; on a
# processor more than one frame makes it slower.
FRAMES_PER_TURN_ON_GPU = 32
# How far the path may be from a reading at constant speed while `diagonal_weight` acts, in texts.
DIAGONAL_WIDTH = 0.2


def positions(size: int | tf.Tensor) -> tf.Tensor:
    """0, 1, … as float32 (size,).

    GPUs have no kernel to compare or to add int32: such values would go to the host and back.
    """
    return tf.cast(tf.range(size), tf.float32)


def length_mask(lengths: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """1.0 at real positions. lengths of any dtype (batch,) -> float32 (batch, size)."""
    is_real = positions(size)[tf.newaxis] < tf.cast(lengths, tf.float32)[:, tf.newaxis]
    return tf.cast(is_real, tf.float32)


def path_of_durations(durations: tf.Tensor, num_frames: int | tf.Tensor) -> tf.Tensor:
    """Stretch whole durations to a path.

    Args:
        durations: whole numbers of any dtype (batch, symbols), 0 at padding
        num_frames: size of the frame axis; longer sums are cut

    Returns: float32 (batch, num_frames, symbols)
    """
    durations = tf.cast(durations, tf.float32)
    ends = tf.cumsum(durations, axis=1)
    frame = positions(num_frames)[tf.newaxis, :, tf.newaxis]
    return tf.cast(
        (frame < ends[:, tf.newaxis]) & (frame >= (ends - durations)[:, tf.newaxis]), tf.float32
    )


def place_in_symbol(durations: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
    """Where in its symbol each frame is: a decoder of small reach can't see it from the states.

    Args: durations of any dtype (batch, symbols); path float32 (batch, frames, symbols)
    Returns: float32 (batch, frames, 4): share passed; frames passed, frames to come and length, all
        three in log scale
    """
    durations = tf.cast(durations, tf.float32)
    starts = tf.cumsum(durations, axis=1, exclusive=True)
    stretched = tf.matmul(path, tf.stack([starts, durations], axis=2))
    is_real = tf.reduce_max(path, axis=2)
    frame = positions(tf.shape(path)[1])[tf.newaxis]
    length = stretched[..., 1]
    passed = (frame - stretched[..., 0] + 0.5) * is_real
    to_come = tf.maximum(length - passed, 0.0)
    share = passed / tf.maximum(length, 1.0)
    # Not `log1p`, which ONNX does not have.
    logs = [tf.math.log(1.0 + frames) for frames in (passed, to_come, length)]
    return tf.stack([share - 0.5 * is_real, *logs], axis=2)


def contour(values: tf.Tensor, durations: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
    """A line through one value for each symbol: its own in the middle, halfway at the borders.

    Args: values float32, durations of any dtype (batch, symbols); path float32 (batch, frames, symbols)
    Returns: float32 (batch, frames)
    """
    has_frames = tf.cast(tf.cast(durations, tf.float32) > 0, tf.float32)
    is_last = tf.cumsum(has_frames, axis=1, reverse=True) <= 1
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
    frame_share = (positions(num_frames) + 0.5)[tf.newaxis] / tf.cast(mel_lengths, tf.float32)[
        :, tf.newaxis
    ]
    symbol_share = (positions(num_symbols) + 0.5)[tf.newaxis] / tf.cast(symbol_lengths, tf.float32)[
        :, tf.newaxis
    ]
    off = (frame_share[:, :, tf.newaxis] - symbol_share[:, tf.newaxis, :]) / DIAGONAL_WIDTH
    return -0.5 * tf.square(off)


@tf.function(jit_compile=True, autograph=False)
def monotonic_path_durations(
    scores: tf.Tensor, symbol_lengths: tf.Tensor, mel_lengths: tf.Tensor
) -> tf.Tensor:
    """The best monotonic path through a score matrix, as durations.

    One scan over frames there and one back, vectorised over text and compiled on its own. An
    utterance with fewer frames than symbols has no path: its last symbols get no frame.

    Args:
        scores: float32 (batch, frames, symbols), larger is better
        symbol_lengths, mel_lengths: int32 (batch,)

    Returns: int32 (batch, symbols); rows sum to mel_lengths.
    """
    per_turn = FRAMES_PER_TURN_ON_GPU if tf.config.list_logical_devices("GPU") else 1
    return durations_in_turns(scores, symbol_lengths, mel_lengths, per_turn)


def durations_in_turns(
    scores: tf.Tensor, symbol_lengths: tf.Tensor, mel_lengths: tf.Tensor, per_turn: int
) -> tf.Tensor:
    """`monotonic_path_durations` as a graph whose loops take so many frames a turn.

    They count up to a fixed number and have no other condition, so no `maximum_iterations` either:
    XLA then knows how often they turn, and the host need not ask the GPU after every turn.
    """
    shape = tf.shape(scores)
    batch, num_frames, num_symbols = shape[0], shape[1], shape[2]
    num_turns = -(-num_frames // per_turn)
    by_frame = tf.transpose(scores, [1, 0, 2])
    extra = num_turns * per_turn - num_frames
    by_turn = tf.reshape(
        tf.pad(by_frame, [[0, extra], [0, 0], [0, 0]]),
        [num_turns, per_turn, batch, num_symbols],
    )
    symbol = tf.range(num_symbols)[tf.newaxis]

    def advance(
        turn: tf.Tensor, best: tf.Tensor, came_by_step: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        steps = []
        for i, score in enumerate(tf.unstack(by_turn[turn], per_turn)):
            stepped = tf.pad(best, [[0, 0], [1, 0]], constant_values=IMPOSSIBLE)[:, :-1]
            steps.append(stepped > best)
            is_reachable = symbol <= turn * per_turn + i
            best = tf.where(is_reachable, tf.maximum(best, stepped), IMPOSSIBLE) + score
        steps = tf.stack(steps)[tf.newaxis]
        return turn + 1, best, tf.tensor_scatter_nd_update(came_by_step, [[turn]], steps)

    start = tf.where(symbol == 0, tf.zeros([batch, 1]), IMPOSSIBLE)
    no_steps = tf.zeros([num_turns, per_turn, batch, num_symbols], tf.bool)
    _, _, came_by_step = tf.while_loop(
        lambda turn, *_: turn < num_turns, advance, (tf.constant(0), start, no_steps)
    )

    def retreat(
        turns_done: tf.Tensor, position: tf.Tensor, places: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        turn = num_turns - 1 - turns_done
        steps = tf.unstack(came_by_step[turn], per_turn)
        found = []
        for i in reversed(range(per_turn)):
            is_real = turn * per_turn + i < mel_lengths
            found.append(tf.where(is_real, position, -1))
            is_step = tf.gather(steps[i], tf.maximum(position, 0), batch_dims=1)
            position -= tf.cast(is_step & is_real & (position > 0), tf.int32)
        found = tf.stack(found)[tf.newaxis]
        places = tf.tensor_scatter_nd_update(places, [[turns_done]], found)
        return turns_done + 1, position, places

    last_symbol = tf.minimum(symbol_lengths, mel_lengths) - 1
    no_places = tf.zeros([num_turns, per_turn, batch], tf.int32)
    _, _, places = tf.while_loop(
        lambda turns_done, *_: turns_done < num_turns,
        retreat,
        (tf.constant(0), last_symbol, no_places),
    )
    is_there = tf.reshape(places, [-1, batch, 1]) == symbol
    return tf.reduce_sum(tf.cast(is_there, tf.int32), axis=0)


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

    Returns: whole numbers, float32 (batch, symbols), no gradient
    """
    prior_mel, mel = tf.stop_gradient(prior_mel), tf.stop_gradient(mel)
    scores = (
        tf.matmul(mel, prior_mel, transpose_b=True)
        - 0.5 * tf.reduce_sum(tf.square(prior_mel), axis=2)[:, tf.newaxis]
    )
    scores += diagonal_weight * diagonal_penalty(
        symbol_lengths, mel_lengths, tf.shape(prior_mel)[1], tf.shape(mel)[1]
    )
    durations = monotonic_path_durations(scores, symbol_lengths, mel_lengths)
    return tf.stop_gradient(tf.cast(durations, tf.float32))
