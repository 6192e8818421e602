"""What the model is trained for, as sums and counts, so that a group of batches is normalised by its real frames together."""

import tensorflow as tf

from model_worker.alignment import length_mask

WEIGHTS = {"mel": 1.0, "prior": 0.5, "duration": 0.1, "pitch": 0.1, "energy": 0.1}


def loss_parts(outputs: dict[str, tf.Tensor], batch: dict[str, tf.Tensor]) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
    """Sum and count of every part over one batch; filler rows and padding are in neither.

    Args: outputs: of `AcousticModel.training_outputs`; batch: the batch's arrays.
    Returns: name -> (sum float32 scalar, count float32 scalar)
    """
    weight = tf.cast(batch["weight"], tf.float32)[:, tf.newaxis]
    frames = length_mask(batch["mel_lengths"], tf.shape(outputs["mel"])[1]) * weight
    symbols = length_mask(batch["symbol_lengths"], tf.shape(outputs["log_durations"])[1]) * weight
    mel_count = tf.reduce_sum(frames) * outputs["mel"].shape[2]
    symbol_count = tf.reduce_sum(symbols)
    mel, target = tf.cast(outputs["mel"], tf.float32), outputs["target_mel"]
    mel_error = tf.reduce_sum(tf.abs(mel - target), axis=2)
    prior_error = tf.reduce_sum(tf.square(outputs["prior_mel"] - target), axis=2)
    log_durations = tf.math.log(tf.maximum(tf.cast(outputs["durations"], tf.float32), 0.5))
    duration_error = tf.square(outputs["log_durations"] - log_durations)
    voiced = symbols * outputs["has_pitch"]
    prosody_error = tf.square(outputs["prosody"] - outputs["target_prosody"])
    return {
        "mel": (tf.reduce_sum(mel_error * frames), mel_count),
        "prior": (tf.reduce_sum(prior_error * frames), mel_count),
        "duration": (tf.reduce_sum(duration_error * symbols), symbol_count),
        "pitch": (tf.reduce_sum(prosody_error[..., 0] * voiced), tf.reduce_sum(voiced)),
        "energy": (tf.reduce_sum(prosody_error[..., 1] * symbols), symbol_count),
    }


def counts_of(parts: dict[str, tuple[tf.Tensor, tf.Tensor]]) -> dict[str, tf.Tensor]:
    """The counts alone, to be added up over a group of batches."""
    return {name: count for name, (_, count) in parts.items()}


def combine(parts: dict[str, tuple[tf.Tensor, tf.Tensor]], counts: dict[str, tf.Tensor], step: tf.Tensor) -> tf.Tensor:
    """This batch's share of its group's loss. `counts` are the whole group's; shares add up to the loss of one large batch."""
    return tf.add_n([WEIGHTS[name] * total / tf.maximum(counts[name], 1.0) for name, (total, _) in parts.items()])


# A symbol lasts about this many frames, whatever the language: with it, parts that are counted in
# symbols can be normalised by frames like the rest, and a group of batches has one normaliser.
_FRAMES_PER_SYMBOL = 6.5
_PER_FRAME = {"mel": 1 / 80, "prior": 1 / 80}


def num_frames(batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Real frames of a batch, float32 scalar; what a group's loss is divided by."""
    return tf.reduce_sum(tf.cast(batch["mel_lengths"], tf.float32) * batch["weight"])


def per_frame_sums(parts: dict[str, tuple[tf.Tensor, tf.Tensor]]) -> dict[str, tf.Tensor]:
    """Weighted sums that, divided by real frames, are the parts of the loss."""
    return {name: WEIGHTS[name] * _PER_FRAME.get(name, _FRAMES_PER_SYMBOL) * total for name, (total, _) in parts.items()}
