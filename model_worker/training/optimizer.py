"""One optimizer step in the graph: Muon for inner matrices, AdamW for the rest, their averages.

Both kinds share one learning rate: an orthogonal update is scaled to the size that Adam's would
have, so that a rate found for AdamW serves here too.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from model_worker.training.orthogonal_update import orthogonal_update

_BETA1, _BETA2, _EPSILON = 0.9, 0.98, 1e-8
_EMA_WARMUP = 10.0


def _zeros_like(weight: tf.Variable, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros_like(weight), trainable=False, name=name)


class Optimizer:
    """The state beside a model's weights, all of it named by the weight it belongs to."""

    def __init__(
        self,
        variables: list[keras.Variable],
        matrices: list[keras.Variable],
        weight_decay: float,
    ):
        """`matrices`: those of the variables that take orthogonal updates."""
        self._weight_decay = weight_decay
        self.weights = [v.value for v in variables]
        # By place, not by Keras's own names: those depend on what was built before in the process.
        self.names = [f"{i:03d}.{v.path.rsplit('/')[-1]}" for i, v in enumerate(variables)]
        # Norms, biases and embeddings are not pulled towards zero.
        self._decayed = [v.ndim > 1 and "embedding" not in v.path for v in variables]
        chosen = {id(v) for v in matrices}
        self._is_matrix = [id(v) in chosen for v in variables]
        named = list(zip(self.names, self.weights, self._is_matrix, strict=True))
        self.first_moments = {name: _zeros_like(weight, "m") for name, weight, _ in named}
        self.second_moments = {
            name: _zeros_like(weight, "v") for name, weight, is_matrix in named if not is_matrix
        }
        self.averages = [tf.Variable(w, trainable=False, name="ema") for w in self.weights]
        # Adam's own count: skipped steps are not in it.
        self.num_applied = tf.Variable(tf.constant(0, tf.int64), trainable=False)

    def apply(
        self,
        gradients: list[tf.Tensor],
        factor: tf.Tensor,
        rate: tf.Tensor,
        ema_decay: tf.Tensor,
    ) -> None:
        """Move every weight and its average. `factor` scales the gradients as they are used."""
        self.num_applied.assign_add(1)
        count = tf.cast(self.num_applied, tf.float32)
        powers = tf.pow(_BETA1, count), tf.pow(_BETA2, count)
        ema_decay = tf.minimum(ema_decay, (1.0 + count) / (_EMA_WARMUP + count))
        for i, (name, weight) in enumerate(zip(self.names, self.weights, strict=True)):
            gradient = gradients[i] * factor
            if self._decayed[i] and self._weight_decay:
                weight.assign_sub(rate * self._weight_decay * weight)
            if self._is_matrix[i]:
                weight.assign_sub(rate * orthogonal_update(self.first_moments[name], gradient))
            else:
                self._adam(name, weight, gradient, powers, rate)
            self.averages[i].assign_sub((1.0 - ema_decay) * (self.averages[i] - weight))

    def _adam(self, name, weight, gradient, powers, rate) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=self.first_moments[name].handle,
            v=self.second_moments[name].handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=_BETA1,
            beta2=_BETA2,
            epsilon=_EPSILON,
            grad=gradient,
        )
