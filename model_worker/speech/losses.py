"""What the model is trained for, as sums over real frames and symbols.

All parts are divided by the same number in the end, the frames of a whole group of batches, so that
a group has the loss of one large batch.
"""

import tensorflow as tf

from model_worker.speech.network.alignment import length_mask

# A symbol lasts about this many frames in any language: parts that are counted in symbols weigh
# this much more, and so about as much as if they were means over symbols.
_FRAMES_PER_SYMBOL = 6.5
PARTS = ("mel", "prior", "duration", "pitch", "energy")


def loss_parts(outputs: dict[str, tf.Tensor], batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The weighted sum of every part over one batch; filler rows and padding are in none.

    Args:
        outputs: of `AcousticModel.training_outputs`.
        batch: the batch's arrays.

    Returns:
        Each of PARTS as a float32 scalar.
    """
    weight = tf.cast(batch["weight"], tf.float32)[:, tf.newaxis]
    frames = length_mask(batch["mel_lengths"], tf.shape(outputs["mel"])[1]) * weight
    symbols = length_mask(batch["symbol_lengths"], tf.shape(outputs["log_durations"])[1]) * weight
    symbols *= 0.1 * _FRAMES_PER_SYMBOL
    mel, target = tf.cast(outputs["mel"], tf.float32), outputs["target_mel"]
    mel_error = _mean_over_bins(tf.abs(mel - target))
    prior_error = _mean_over_bins(tf.square(outputs["prior_mel"] - target))
    prosody_error = tf.square(outputs["prosody"] - outputs["target_prosody"])
    duration_error = _duration_error(outputs["log_durations"], outputs["durations"])
    return {
        "mel": tf.reduce_sum(mel_error * frames),
        "prior": 0.5 * tf.reduce_sum(prior_error * frames),
        "duration": tf.reduce_sum(duration_error * symbols),
        "pitch": tf.reduce_sum(prosody_error[..., 0] * symbols * outputs["has_pitch"]),
        "energy": tf.reduce_sum(prosody_error[..., 1] * symbols),
    }


def _mean_over_bins(values: tf.Tensor) -> tf.Tensor:
    """(batch, frames, bins) to (batch, frames); the gradient asks no GPU for the shape it had."""
    bins = tf.cast(tf.shape(values)[2], values.dtype)
    return tf.squeeze(tf.reduce_sum(values, axis=2, keepdims=True) / bins, axis=2)


def _duration_error(log_predicted: tf.Tensor, durations: tf.Tensor) -> tf.Tensor:
    """Twice the deviance of a gamma distribution: about the squared error of the logarithm.

    Its smallest mean is at the mean duration. That of the squared error is at the mean logarithm,
    and speech of such durations is some 5 % too fast.
    """
    longer = tf.maximum(tf.cast(durations, tf.float32), 0.5)
    ahead = tf.math.log(longer) - log_predicted
    return 2.0 * (tf.exp(ahead) - 1.0 - ahead)


def num_frames(batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Real frames of a batch, float32 scalar; what a group's loss is divided by."""
    return tf.reduce_sum(tf.cast(batch["mel_lengths"], tf.float32) * batch["weight"])
