"""Trains somebody's text-to-mel model on the data side of speech."""

import keras
import tensorflow as tf
from text_to_mel import frame_mask, masked_l1, stop_loss, text_to_mel

from shared.task import Amount, ModelSide


class Model(ModelSide):
    unit = "frames"
    judged_by = "mel"
    judged_in_words = "mel error"

    def build(self, facts):
        self.mean, self.deviation = facts.mel_mean, facts.mel_std
        return text_to_mel(len(facts.symbol_table))

    def losses(self, model, batch, training, step):
        mel = (batch["mel"] - self.mean) / self.deviation
        previous = tf.pad(mel[:, :-1], [[0, 0], [1, 0], [0, 0]])
        frames, stop = model([batch["symbols"], previous], training=training)
        mask = frame_mask(batch["mel_lengths"], tf.shape(mel)[1])
        mel_error = masked_l1(mel, frames, mask)
        stop_error = stop_loss(batch["mel_lengths"], stop, mask)
        return {
            "mel": tf.reduce_sum(mel_error * batch["weight"]),
            "stop": 0.1 * tf.reduce_sum(stop_error * batch["weight"]),
        }

    def optimizer(self, player):
        schedule = keras.optimizers.schedules.ExponentialDecay(2e-3, 1000, 0.9)
        return keras.optimizers.AdamW(schedule, weight_decay=1e-4, clipnorm=1.0)

    def amount(self, arrays):
        lengths = arrays["mel_lengths"]
        return Amount(float(lengths[arrays["weight"] > 0].sum()), float(arrays["pitch"].size))
