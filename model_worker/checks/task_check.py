"""`python -m model_worker.checks.task_check`: the model half's part in `launcher.py validate --task`.

Trains a few steps on the batches that the data half's part has left, with the step, the state and the
checkpoints of a real run.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from shared.config.settings import Config
from shared.errors import TaskError
from shared.plan.index import Index
from shared.task.registry import Task
from shared.task.users_file import line_of
from shared.worker.checking import check_main, passed, remark
from shared.worker.start import fix_gpu, open_run, start_tensorflow, worker_parser

_RATE, _EMA_DECAY = 1e-3, 0.9
_MOST_NAMED = 5


def main() -> int:
    return check_main(_work)


def _work() -> None:
    parser = worker_parser("python -m model_worker.checks.task_check", "--listen")
    parser.add_argument("--batches", required=True, type=Path, help="folder with the batches")
    flags = parser.parse_all(sys.argv[1:])
    run, config = open_run(flags)
    device_kind = fix_gpu("model", flags, config)
    start_tensorflow("model", device_kind, config)
    look_at_model_half(config, Index.load(run.index), run.path / "trial", flags.batches)


def look_at_model_half(config: Config, index: Index, folder: Path, batches_in: Path) -> None:
    """All that is looked at, on the batches in a folder; checkpoints of the trial go into another.

    Raises:
        TaskError: something is not as it must be. Other exceptions are the task's own.
    """
    import tensorflow as tf

    files = sorted(batches_in.glob("*.safetensors"))
    batches = [
        {name: tf.constant(array) for name, array in safetensors.numpy.load_file(path).items()}
        for path in files
    ]
    trial = _StepTrial(config, index, folder)
    weights = trial.model.trainable_variables
    size = sum(int(np.prod(variable.shape)) for variable in weights)
    passed("build", f"{size:,} weights in {len(weights)} variables")
    trial.look_at_losses(batches[0])
    trial.look_at_step(batches[0])
    trial.look_at_validation(batches[0])
    trial.look_at_resume(batches)


class _StepTrial:
    """A model and its training step, as a run builds them."""

    def __init__(self, config: Config, index: Index, folder: Path):
        self._config, self._index, self._folder = config, index, folder
        self._named = Task.of(config.run.task)
        self._task = self._named.model_side()(config)
        self.model, self._step = self._built(config.training.seed)

    def _built(self, seed: int) -> tuple[Any, Any]:
        import keras
        import tensorflow as tf

        from model_worker.training.built_model import built_model
        from model_worker.training.step import StepSettings, TrainStep
        from shared.task import Facts

        keras.utils.set_random_seed(seed)
        tf.config.experimental.enable_op_determinism()
        model = built_model(self._task, Facts(self._index, self._config))
        return model, TrainStep(model, self._task, self._named.form().signature(), StepSettings())

    def look_at_losses(self, batch: dict) -> None:
        """The parts of the loss and their weight, on a batch of real examples."""
        import tensorflow as tf

        from model_worker.training.task_losses import measured

        look = tf.function(
            lambda arrays: measured(self._task, self.model, arrays, True, tf.constant(0)),
            autograph=False,
        )
        before = [variable.numpy() for variable in self.model.variables]
        parts, weight = look(batch)
        for variable, old in zip(self.model.variables, before, strict=True):
            variable.assign(old)  # moving statistics and seeds have gone on
        values = {name: float(value) for name, value in parts.items()}
        losses = line_of(self._task.losses)
        for name, value in values.items():
            if not np.isfinite(value):
                raise TaskError(
                    f"{losses}: the part {name!r} of the loss is {value} before the first step. "
                    "Look for a logarithm or a division of zero, also on padding: what is masked "
                    "afterwards still spoils the gradient."
                )
        divisor = float(weight)
        if not np.isfinite(divisor) or divisor <= 0:
            raise TaskError(
                f"{line_of(self._task.weight)}: the weight of a batch of real examples is "
                f"{divisor:g}; expected a number above 0, which the losses are divided by."
            )
        shown = ", ".join(f"{name} {value / divisor:.4g}" for name, value in values.items())
        passed("losses", f"{shown}, each divided by a weight of {divisor:g}")

    def look_at_step(self, batch: dict) -> None:
        """A step changes the weights; whose gradient is missing is told."""
        before = [weight.numpy() for weight in self._step.weights]
        self._train(self._step, batch, 0)
        metrics = self._step.read_metrics()
        if metrics["nonfinite_steps"]:
            raise TaskError(
                f"{line_of(self._task.losses)}: the gradient is not finite, although the loss is. "
                "Look for a square root, a norm or a division at zero."
            )
        unchanged = [
            name
            for name, weight, old in zip(self._step.names, self._step.weights, before, strict=True)
            if np.array_equal(weight.numpy(), old)
        ]
        if len(unchanged) == len(before):
            raise TaskError(
                f"{line_of(self._task.losses)}: a step changed none of the weights. The loss "
                "must depend on them, and the optimizer's rate must not be 0."
            )
        num_changed = len(before) - len(unchanged)
        passed("step", f"changed {num_changed} of {len(before)} weights")
        if unchanged:
            named = ", ".join(unchanged[:_MOST_NAMED])
            more = f" and {len(unchanged) - _MOST_NAMED} more" * (len(unchanged) > _MOST_NAMED)
            remark(f"not changed by it: {named}{more}")

    def look_at_validation(self, batch: dict) -> None:
        """Validating changes nothing."""
        import tensorflow as tf

        from model_worker.training.task_losses import measured

        look = tf.function(
            lambda arrays: measured(self._task, self.model, arrays, False, tf.constant(1 << 30)),
            autograph=False,
        )
        before = [variable.numpy() for variable in self.model.variables]
        parts, _ = look(batch)
        for variable, old in zip(self.model.variables, before, strict=True):
            if not np.array_equal(variable.numpy(), old, equal_nan=variable.dtype != "bool"):
                raise TaskError(
                    f"{line_of(self._task.losses)}: with training=False it changed "
                    f"{variable.path}. Pass `training` on to the model and to its layers."
                )
        if not all(np.isfinite(float(value)) for value in parts.values()):
            raise TaskError(
                f"{line_of(self._task.losses)}: the loss is not finite with training=False."
            )
        passed("losses", "with training=False: changes nothing")

    def look_at_resume(self, batches: list[dict]) -> None:
        """Saved, restored into another model and gone on with, it ends in the same bits."""
        from model_worker.checkpoints.store import CheckpointStore
        from model_worker.training.state import Position, groups_of, restore, state_of

        shutil.rmtree(self._folder, ignore_errors=True)
        store = CheckpointStore(self._folder)
        identity = {"task": self._named.name}
        state = state_of(self._step, Position(step=1), [], identity)
        store.save(1, groups_of(self._step), state)
        _, other = self._built(self._config.training.seed + 1)
        checkpoint = store.load_latest()
        assert checkpoint is not None
        restore(checkpoint, other, identity)
        for number, batch in enumerate(batches, start=1):
            for step in (self._step, other):
                self._train(step, batch, number)
        ours, theirs = groups_of(self._step), groups_of(other)
        for group, arrays in ours.items():
            for name, array in arrays.items():
                if array.tobytes() != theirs[group][name].tobytes():
                    raise TaskError(
                        f"{line_of(self._task.losses)}: after a checkpoint, {group}/{name} goes "
                        "another way than without one. Something that changes is kept outside of "
                        "the model's variables: a Python counter, or tf.random without a seed of "
                        "`step` (keras.random with a SeedGenerator of the model is saved)."
                    )
        count = sum(len(arrays) for arrays in ours.values())
        passed("resume", f"{count} arrays bit-equal after {len(batches)} more steps")

    def _train(self, step: Any, batch: dict, number: int) -> None:
        step(batch, number, _RATE, _EMA_DECAY)


if __name__ == "__main__":
    sys.exit(main())
