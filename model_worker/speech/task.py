"""Speech as a task: the model half, which learns to turn text into mel spectrograms."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from model_worker.speech import losses
from model_worker.speech.initial_weights import new_symbols_in_words, with_matched_symbols
from model_worker.speech.network.acoustic_model import AcousticModel, build_model
from model_worker.speech.samples import SpokenSamples
from shared.plan.index import TRAIN, Index
from shared.speech.corpus_statistics import Statistics
from shared.speech.index_check import check_speech
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.task.model_side import Amount, Facts, ModelSide, Viewer

# Peak learning rate by model size, where the user gives none.
PEAK_RATES = {"tiny": 8e-3, "small": 1e-3, "normal": 7e-4, "big": 4e-4}

# A run with --max-minutes ends here at the latest. Up to 128 passes were seen to do no harm to what
# is held out (docs/tuning.md); the rest is a margin. A small corpus needs some steps whatever its size.
_MOST_PASSES = 320
_LEAST_STEPS = 4000


class SpeechModel(ModelSide):
    """Learns from text, mel, pitch and energy; its alignment of them is learned with it.

    It is judged by the mel error alone: durations and pitch have many right answers, and their
    errors rise while the speech still gets better.
    """

    unit = "s of audio"
    judged_by = "mel"
    judged_in_words = "mel error"
    parts = losses.PARTS
    measured_at = (640, 96)

    def build(self, facts: Facts) -> keras.Model:
        index = facts.index
        check_speech(index)
        data, training = self.config.data, self.config.training
        num_examples = np.count_nonzero(index.split == TRAIN)
        return build_model(
            self.config.task.model_size,
            len(index.symbol_table),
            Statistics.of_index(index),
            steps_per_pass=num_examples / max(1, data.batch_size * training.grad_accum),
        )

    def losses(
        self,
        model: AcousticModel,
        batch: dict[str, tf.Tensor],
        training: bool,
        step: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        outputs = model.training_outputs(batch, training=training, step=step)
        return losses.loss_parts(outputs, batch)

    def weight(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return losses.num_frames(batch)

    def matrices(self, model: AcousticModel) -> list[keras.Variable]:
        return model.inner_matrices()

    def peak_rate(self) -> float:
        return PEAK_RATES[self.config.task.model_size]

    def most_steps(self, steps_per_epoch: float) -> int:
        return max(_LEAST_STEPS, round(_MOST_PASSES * steps_per_epoch))

    def identity(self) -> dict[str, str]:
        return {"model_size": self.config.task.model_size}

    def amount(self, arrays: Mapping[str, np.ndarray]) -> Amount:
        frame_s = HOP / SAMPLE_RATE
        real = int(arrays["mel_lengths"][arrays["weight"] > 0].sum())
        rows, frames = arrays["mel"].shape[:2]
        return Amount(real * frame_s, rows * frames * frame_s)

    def likely(
        self, index: Index, arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> dict[str, np.ndarray]:
        """Full rows of noise at the corpus' level, any symbols."""
        random = np.random.default_rng(1)
        full = {
            "symbol_lengths": arrays["symbols"][1][1],
            "mel_lengths": arrays["mel"][1][1],
        }
        found = {}
        for name, (dtype, shape) in arrays.items():
            array: np.ndarray
            if name == "symbols":
                array = random.integers(1, len(index.symbol_table), shape)
            elif name in full:
                array = np.full(shape, full[name])
            elif "mel" in name:
                array = random.normal(index.mel_mean, index.mel_std, shape)
            else:
                array = np.ones(shape)
            found[name] = array.astype(dtype)
        return found

    def viewer(self, model: AcousticModel, index: Index) -> Viewer:
        return SpokenSamples(model, index, self.config.run.samples)

    def begin_from(
        self,
        model: AcousticModel,
        arrays: Mapping[str, np.ndarray],
        index: Index,
        other: Index,
    ) -> tuple[Mapping[str, np.ndarray], str]:
        known, symbol_table = other.symbol_table, index.symbol_table
        fitting = with_matched_symbols(arrays, model.trainable_variables, known, symbol_table)
        return fitting, new_symbols_in_words(known, symbol_table)
