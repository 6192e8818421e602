"""A trained vocoder at work: the mel of any length to samples, in one call."""

from __future__ import annotations

import random

import keras
import numpy as np
import tensorflow as tf

from model_worker.vocoder.generator import Generator, Scale, build_generator
from model_worker.vocoder.griffin_lim import with_silence
from model_worker.vocoder.trained_run import TrainedRun
from shared.errors import CheckpointError
from shared.speech.mel import HOP, MEL_BINS


class TrainedVocoder:
    """Speaks mels with a generator."""

    def __init__(self, model: Generator, name: str = "vocoder"):
        self.name = name
        self._graph = tf.function(
            model.speak,
            input_signature=[tf.TensorSpec([None, None, MEL_BINS], tf.float32)],
            autograph=False,
        )

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """mel float32 (frames, 80), natural log -> float32 (frames * HOP,) in [-1, 1]"""
        samples = self._graph(tf.constant(with_silence(mel)[np.newaxis], tf.float32))[
            0, : len(mel) * HOP
        ]
        return np.clip(samples.numpy(), -1.0, 1.0)


def load_generator(run: TrainedRun) -> Generator:
    """The generator with the averaged weights of a run, in float32.

    Raises:
        CheckpointError: the weights are of another model.
    """
    index = run.index
    # A training run that speaks with it has a policy and random numbers of its own.
    policy, numbers = keras.config.dtype_policy(), random.getstate()
    keras.config.set_dtype_policy("float32")
    try:
        model = build_generator(run.model_size, Scale.of_index(index), index.mel_basis)
    finally:
        keras.config.set_dtype_policy(policy)
        random.setstate(numbers)
    arrays = [array for _, array in sorted(run.checkpoint.groups["ema"].items())]
    variables = model.trainable_variables
    if [tuple(a.shape) for a in arrays] != [tuple(v.shape) for v in variables]:
        raise CheckpointError(
            f"{run.checkpoint.path}: its weights do not fit a {run.model_size} vocoder. Another "
            "version made it, or the run directory holds parts of different runs."
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return model
