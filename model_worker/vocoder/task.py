"""The vocoder as a task: the model half, which learns to turn mels into samples."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from model_worker.vocoder import losses
from model_worker.vocoder.generator import Generator, Scale, build_generator
from model_worker.vocoder.pitch_reader import log_f0_of, surprise
from model_worker.vocoder.samples import CopiedSamples
from shared.plan.index import Index
from shared.speech.index_check import check_speech
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.task.model_side import Amount, Facts, ModelSide, Viewer
from shared.vocoder.batch import FULL_SCALE, SEGMENT_FRAMES

# Peak learning rate by model size, where the user gives none.
PEAK_RATES = {"tiny": 8e-3, "small": 4e-3, "normal": 2e-3, "big": 1e-3}
_SEGMENT_S = SEGMENT_FRAMES * HOP / SAMPLE_RATE
# A part of its own, of which the others know nothing: so that their sum is told as a loss of sound.
_PITCH_WEIGHT = 0.1


class VocoderModel(ModelSide):
    """Learns from segments of audio with their mel and pitch.

    In training the pitch is given; it is judged as it will be used, with the pitch read off the mel.
    """

    unit = "s of audio"
    judged_by = "magnitude"
    judged_in_words = "error of the spectrum"
    parts = (*losses.PARTS, "pitch")

    def build(self, facts: Facts) -> keras.Model:
        index = facts.index
        check_speech(index)
        return build_generator(self.config.task.model_size, Scale.of_index(index), index.mel_basis)

    def losses(
        self, model: Generator, batch: dict[str, tf.Tensor], training: bool, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        mel, log_f0, weight = batch["mel"], batch["log_f0"], batch["weight"]
        likelihood = model.pitch_of(mel)
        if training:
            seed = tf.stack([tf.cast(step, tf.int32), 0])
            rows = tf.shape(weight)
            with tf.device("/CPU:0"):  # where the noise is counted on from there
                noise = tf.random.stateless_uniform(rows, seed, 0, 1 << 16, tf.int32)
            made = model(mel, log_f0, noise)
        else:
            made = model(mel, log_f0_of(likelihood), tf.zeros([tf.shape(mel)[0]], tf.int32))
        gain = batch["gain"][:, tf.newaxis] / FULL_SCALE
        true = tf.cast(batch["audio"], tf.float32) * gain
        pitch = losses.mean_of(surprise(likelihood, log_f0))
        parts = losses.loss_parts(made, true, weight, model.mel_basis)
        return parts | {"pitch": _PITCH_WEIGHT * tf.reduce_sum(pitch * weight)}

    def matrices(self, model: Generator) -> list[keras.Variable]:
        return model.inner_matrices()

    def peak_rate(self) -> float:
        return PEAK_RATES[self.config.task.model_size]

    def identity(self) -> dict[str, str]:
        return {"model_size": self.config.task.model_size}

    def amount(self, arrays: Mapping[str, np.ndarray]) -> Amount:
        weight = arrays["weight"]
        return Amount(np.count_nonzero(weight > 0) * _SEGMENT_S, len(weight) * _SEGMENT_S)

    def likely(
        self, index: Index, arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> dict[str, np.ndarray]:
        """Noise at the corpus' level, any pitch."""
        random = np.random.default_rng(1)
        shapes = {name: shape for name, (_, shape) in arrays.items()}
        numbers = {
            "audio": random.normal(0.0, 0.1 * FULL_SCALE, shapes["audio"]),
            "mel": random.normal(index.mel_mean, index.mel_std, shapes["mel"]),
            "log_f0": random.normal(index.pitch_mean, index.pitch_std, shapes["log_f0"]),
        }
        return {
            name: numbers.get(name, np.ones(shape)).astype(dtype)
            for name, (dtype, shape) in arrays.items()
        }

    def viewer(self, model: Generator, index: Index) -> Viewer:
        return CopiedSamples(model, index, self.config)
