"""A text-to-mel model as somebody else wrote it, for another trainer: plain Keras, functional.

It reads symbols and the frames so far and predicts the next frame; its masks and losses are its own.
Nothing here knows of Tandem.
"""

import keras
from keras import ops


def conv_block(x, channels, name, causal=False):
    padding = "causal" if causal else "same"
    y = keras.layers.Conv1D(channels, 5, padding=padding, name=f"{name}_conv")(x)
    y = keras.layers.BatchNormalization(name=f"{name}_norm")(y)
    y = keras.layers.ReLU(name=f"{name}_relu")(y)
    y = keras.layers.Dropout(0.1, name=f"{name}_drop")(y)
    return keras.layers.Add(name=f"{name}_add")([x, y])


def text_to_mel(num_symbols, num_mels=80, channels=64):
    """[symbols (B, S), previous frames (B, T, num_mels)] -> [frames (B, T, num_mels), stop (B, T)]"""
    symbols = keras.Input((None,), dtype="int32", name="symbols")
    previous = keras.Input((None, num_mels), name="previous_frames")
    text = keras.layers.Embedding(num_symbols, channels, name="embedding")(symbols)
    for i in range(2):
        text = conv_block(text, channels, f"encoder_{i}")
    x = keras.layers.Dense(channels, activation="relu", name="prenet")(previous)
    x = conv_block(x, channels, "decoder_in", causal=True)
    silent = keras.layers.Lambda(lambda s: ops.not_equal(s, 0), name="text_mask")(symbols)
    seen = keras.layers.Attention(use_scale=True, name="attention")([x, text], mask=[None, silent])
    x = keras.layers.Concatenate(name="joined")([x, seen])
    x = keras.layers.Dense(channels, activation="relu", name="mixed")(x)
    x = conv_block(x, channels, "decoder_out", causal=True)
    frames = keras.layers.Dense(num_mels, name="frames")(x)
    stop = keras.layers.Reshape((-1,), name="stop")(keras.layers.Dense(1, name="stop_logit")(x))
    return keras.Model([symbols, previous], [frames, stop], name="text_to_mel")


def frame_mask(lengths, num_frames):
    """(B,) -> (B, num_frames), 1.0 on real frames."""
    return ops.cast(ops.arange(num_frames)[None, :] < lengths[:, None], "float32")


def masked_l1(target, predicted, mask):
    """Mean absolute error of each clip's real frames: (B,)"""
    error = ops.mean(ops.abs(target - predicted), axis=-1)
    return ops.sum(error * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)


def stop_loss(lengths, logits, mask):
    """Binary cross-entropy of 'this is the last frame', per clip: (B,)"""
    last = ops.cast(ops.arange(ops.shape(logits)[1])[None, :] == lengths[:, None] - 1, "float32")
    each = ops.binary_crossentropy(last, logits, from_logits=True)
    return ops.sum(each * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)
