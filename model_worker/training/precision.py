"""In which numbers a model is computed: what was asked for, as far as the device goes."""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from shared.devices.precision import AUTO, chosen_by

_TF32_FROM = (8, 0)  # compute capability
_POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@dataclasses.dataclass(frozen=True)
class Precision:
    """`name` is float32, tf32, bfloat16 or float16; weights and optimizers are float32 in all."""

    name: str
    on_gpu: bool = False

    @property
    def policy(self) -> str:
        """Keras's name for it."""
        return _POLICIES.get(self.name, "float32")

    @property
    def loss_scaling(self) -> bool:
        """Whether gradients would vanish without it: bfloat16 reaches as far as float32."""
        return self.name == "float16"

    def settle(self) -> None:
        """Have models that are built from now on compute so; a task's own choice is left as it is."""
        if self.on_gpu:  # a CPU computes as it always did
            tf.config.experimental.enable_tensor_float_32_execution(self.name != "float32")
            # With units for it, convolutions take channels last, as everything else has them. TensorFlow
            # would have float32 turned to channels first and back around each of them.
            if self.name == "tf32" and (_capability() or (0, 0)) >= _TF32_FROM:
                tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
        if keras.config.dtype_policy().name == "float32":
            keras.config.set_dtype_policy(self.policy)


def precision_of(wanted: str, device_kind: str) -> Precision:
    """What a run computes in, on the device that this process was started on."""
    on_gpu = device_kind == "gpu"
    capability = _capability() if on_gpu else None
    return Precision(chosen_by(capability) if wanted == AUTO else wanted, on_gpu)


def _capability() -> tuple[int, int] | None:
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return None
    return tf.config.experimental.get_device_details(gpus[0]).get("compute_capability")
