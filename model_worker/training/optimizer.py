"""One optimizer step in the graph: Muon for inner matrices, AdamW for the rest.

Both kinds share one learning rate: an orthogonal update is scaled to the size that Adam's would
have, so that a rate found for AdamW serves here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import keras
import tensorflow as tf

from model_worker.training.orthogonal_update import matrix_shape, orthogonal_updates

_BETA1, _BETA2, _EPSILON = 0.9, 0.98, 1e-8


def _zeros_like(weight: tf.Variable, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros_like(weight), trainable=False, name=name)


class Optimizer:
    """The state beside a player's weights, all of it named by the weight it belongs to."""

    def __init__(
        self,
        variables: Mapping[str, keras.Variable],
        matrices: Iterable[keras.Variable],
        weight_decay: float,
    ):
        """`matrices`: those of the variables that take orthogonal updates, and maybe others."""
        self._weight_decay = weight_decay
        self._weights = {name: v.value for name, v in variables.items()}
        # Norms, biases and embeddings are not pulled towards zero.
        self._decayed = {
            name for name, v in variables.items() if v.ndim > 1 and "embedding" not in v.path
        }
        chosen = {id(v) for v in matrices}
        self._matrices = {name for name, v in variables.items() if id(v) in chosen}
        self._alike: dict[tuple[int, int], list[str]] = {}  # matrices of one shape move together
        for name, weight in self._weights.items():
            if name in self._matrices:
                self._alike.setdefault(matrix_shape(weight), []).append(name)
        self.first_moments = {name: _zeros_like(w, "m") for name, w in self._weights.items()}
        self.second_moments = {
            name: _zeros_like(weight, "v")
            for name, weight in self._weights.items()
            if name not in self._matrices
        }

    def apply(
        self,
        gradients: list[tf.Tensor],
        factor: tf.Tensor,
        rate: tf.Tensor,
        count: tf.Tensor,
        on_moved: Callable[[str], None],
    ) -> None:
        """Move every weight, in the graph.

        Args:
            gradients: one for each variable, in their order; `factor` scales them as they are used.
            rate: of learning.
            count: steps that were applied, this one included; skipped steps are not in it.
            on_moved: called with the name of each weight when it has moved.
        """
        powers = tf.pow(_BETA1, count), tf.pow(_BETA2, count)
        scaled = {
            name: gradient * factor for name, gradient in zip(self._weights, gradients, strict=True)
        }
        for name, weight in self._weights.items():
            if name in self._decayed and self._weight_decay:
                weight.assign_sub(rate * self._weight_decay * weight)
        for names in self._alike.values():
            momenta = [self.first_moments[name] for name in names]
            updates = orthogonal_updates(momenta, [scaled[name] for name in names])
            for name, update in zip(names, updates, strict=True):
                self._weights[name].assign_sub(rate * update)
        for name, weight in self._weights.items():
            if name not in self._matrices:
                self._adam(name, weight, scaled[name], powers, rate)
            on_moved(name)

    @property
    def variables(self) -> list[tf.Variable]:
        """All that `apply` moves."""
        moments = (*self.first_moments.values(), *self.second_moments.values())
        return [*self._weights.values(), *moments]

    def _adam(
        self,
        name: str,
        weight: tf.Variable,
        gradient: tf.Tensor,
        powers: tuple[tf.Tensor, tf.Tensor],
        rate: tf.Tensor,
    ) -> None:
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


class StockOptimizer:
    """A Keras optimizer of the task's own, with its own learning rate and its own state."""

    def __init__(
        self,
        player: str,
        optimizer: keras.optimizers.Optimizer,
        variables: Mapping[str, keras.Variable],
    ):
        self._optimizer = optimizer
        self._variables = dict(variables)
        optimizer.build(list(variables.values()))  # a graph could not make its variables any more
        prefix = f"{player}/" if player else ""
        # The rest of a name is that of the weight, which depends on what was built before.
        self.state = {
            f"{prefix}{i:03d}.{re.split('[/_]', v.path)[-1]}": v.value
            for i, v in enumerate(optimizer.variables)
        }

    def apply(
        self,
        gradients: list[tf.Tensor],
        factor: tf.Tensor,
        rate: tf.Tensor,
        count: tf.Tensor,
        on_moved: Callable[[str], None],
    ) -> None:
        """Move every weight, in the graph; as `Optimizer.apply`, whose rate and count it needs not."""
        scaled = [gradient * factor for gradient in gradients]
        self._optimizer.apply(scaled, list(self._variables.values()))
        for name in self._variables:
            on_moved(name)
