"""The model half of a task: what is learned from a batch, and what people see of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from shared.task.batch import WEIGHT

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from shared.config.settings import Config
    from shared.plan.index import Index


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a model is built from."""

    index: Index
    config: Config

    def __getattr__(self, name: str) -> Any:
        """A fact that `DataSide.corpus` put into the index, such as `facts.groups`."""
        try:
            return self.__dict__["index"].facts[name]
        except KeyError:
            raise AttributeError(f"the index has no fact {name!r}") from None


class Amount(NamedTuple):
    """How much a batch holds, in the task's unit: without and with what is padding."""

    real: float
    padded: float


class ModelSide:
    """The half of a task that runs in the model process.

    A subclass implements `build` and `losses`. A loss part of another player (see `players`) is
    named `player/part`.
    """

    unit = "examples"  # what people count its data in
    judged_by: str | None = None  # the loss part that says what is best; None = their sum
    judged_in_words = "loss"  # what people call that
    # The names that `losses` returns; None = found by tracing it.
    parts: ClassVar[tuple[str, ...] | None] = None

    # Lengths of the batch that steps are timed on, so that machines can be compared; none = the run's own.
    measured_at: ClassVar[tuple[int, ...]] = ()

    def __init__(self, config: Config):
        self.config = config

    def build(self, facts: Facts) -> keras.Model:
        """The model, with every variable it will ever have."""
        raise NotImplementedError

    def losses(
        self, model: Any, batch: dict[str, tf.Tensor], training: bool, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The parts of the loss, each summed over the batch's real examples (`batch["weight"]`)."""
        raise NotImplementedError

    def weight(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """What the sums of a group of batches are divided by together, in any shape to be summed.

        By default the examples.
        """
        return batch[WEIGHT]

    def players(self, model: Any) -> dict[str, list[keras.Variable]]:
        """Who learns what: {"": all} by default; a GAN has {"generator": …, "discriminator": …}.

        The gradients of all are taken of the same weights, each of its own parts of the loss.
        """
        return {"": model.trainable_variables}

    def matrices(self, model: Any) -> list[keras.Variable]:
        """The variables that take Muon's orthogonal updates with --optimizer muon; by default none."""
        return []

    def optimizer(self, player: str) -> keras.optimizers.Optimizer | None:
        """A Keras optimizer with its own rate; None for the engine's, with warm-up and cosine."""
        return None

    def peak_rate(self) -> float:
        """Learning rate of the engine's optimizer where --learning-rate gives none."""
        return 1e-3

    def most_steps(self, steps_per_epoch: float) -> int | None:
        """How many steps data of this size is good for; None = any number.

        A run with --max-minutes ends there, however much time is left. --max-steps goes beyond it.
        """
        return None

    def identity(self) -> dict[str, str]:
        """What of the configuration decides which model it is: a checkpoint of another is refused."""
        return {}

    def amount(self, arrays: Mapping[str, np.ndarray]) -> Amount:
        """How much of `unit` a batch holds."""
        weight = arrays[WEIGHT]
        return Amount(float(np.count_nonzero(weight > 0)), float(len(weight)))

    def likely(
        self, index: Index, arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> dict[str, np.ndarray]:
        """A batch of these dtypes and shapes with numbers as they may come, for a first try."""
        random = np.random.default_rng(1)
        return {
            name: (
                random.normal(size=shape) if np.dtype(dtype).kind == "f" else np.ones(shape)
            ).astype(dtype)
            for name, (dtype, shape) in arrays.items()
        } | {WEIGHT: np.ones(arrays[WEIGHT][1], np.float32)}

    def viewer(self, model: Any, index: Index) -> Viewer | None:
        """Shows people what the model can do by now, at each validation; None = nothing to show."""
        return None

    def begin_from(
        self, model: Any, arrays: Mapping[str, np.ndarray], index: Index, other: Index
    ) -> tuple[Mapping[str, np.ndarray], str]:
        """--init-from: another run's weights, by name, as they fit this model, and a remark.

        `other` is that run's index.
        """
        return arrays, ""


class Viewer:
    """Keeps a few held-out examples, and shows what the model makes of them."""

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """Take what it wants from a validation batch that comes by."""
        raise NotImplementedError

    def make(self, folder: Path) -> Any:
        """Use the model, which has the averaged weights now; None = there is nothing to show.

        `folder` is that of all steps: what is written there once need not be made again.
        """
        raise NotImplementedError

    def write(self, made: Any, folder: Path, step_folder: Path) -> list[Shown]:
        """Write files into `step_folder`, in a thread of its own; training goes on meanwhile."""
        raise NotImplementedError


class Shown(NamedTuple):
    """One thing that TensorBoard shows: sound (samples,) with its rate, or a picture."""

    name: str
    picture: np.ndarray | None = None  # uint8 (height, width, 3 or 4)
    sound: np.ndarray | None = None  # float32 (samples,) in [-1, 1]
    sample_rate: int = 0
