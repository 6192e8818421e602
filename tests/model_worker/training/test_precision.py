"""Which numbers a model is computed in, and what follows from them for the step."""

import keras
import pytest
import tensorflow as tf

from model_worker.training.precision import Precision, precision_of


@pytest.fixture
def policy():
    before = keras.config.dtype_policy()
    yield lambda: keras.config.dtype_policy().name
    keras.config.set_dtype_policy(before)
    tf.config.experimental.enable_tensor_float_32_execution(True)


@pytest.mark.parametrize("kind", ["cpu", "fake"])
def test_on_a_cpu_nothing_changes(policy, kind):
    precision = precision_of("auto", kind)
    precision.settle()
    assert precision == Precision("float32") and policy() == "float32"
    assert not precision.loss_scaling
    assert tf.config.experimental.tensor_float_32_execution_enabled()  # as TensorFlow begins


def test_what_was_asked_for_is_what_is_computed(policy):
    precision_of("bfloat16", "cpu").settle()
    assert policy() == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("name", "tf32", "scaling"),
    [("float32", False, False), ("tf32", True, False), ("bfloat16", True, False), ("float16", True, True)],
)  # fmt: skip
def test_only_float16_scales_its_loss_and_only_float32_keeps_all_bits(policy, name, tf32, scaling):
    precision = Precision(name, on_gpu=True)
    precision.settle()
    assert tf.config.experimental.tensor_float_32_execution_enabled() is tf32
    assert precision.loss_scaling is scaling


def test_a_task_that_has_chosen_its_own_numbers_keeps_them(policy):
    keras.config.set_dtype_policy("mixed_float16")
    Precision("bfloat16").settle()
    assert policy() == "mixed_float16"
