"""`--deterministic` on a GPU: no graph of a built-in task holds what TensorFlow refuses there."""

import keras
import librosa
import pytest
import tensorflow as tf
from gpu_determinism import REFUSED, not_deterministic, refused_by_the_library
from tensorflow.python.framework import config

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import pad_length
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import Statistics, build_model
from model_worker.speech.task import SpeechModel
from model_worker.training.step import Compiled, StepSettings, TrainStep
from model_worker.training.validation import Validation
from model_worker.vocoder.generator import Scale, build_generator
from model_worker.vocoder.task import VocoderModel
from shared.config.settings import Config
from shared.speech.batch import FORM
from shared.vocoder.batch import FORM as VOCODER_FORM
from shared.worker.start import failure_in_words

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
# Every layer and option of the model, as small as they go.
acoustic_model.SHAPES["all its parts"] = acoustic_model.ModelShape(
    16, 1, 16, 1, 8, 8, 1, 4, dropout=0.1, expansion=1.0
)


@pytest.fixture(autouse=True)
def deterministic():
    """As a run with the flag traces: TensorFlow's own functions then choose other operations."""
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    yield
    config.disable_op_determinism()


def graphs_of_a_step(policy="float32", **settings):
    keras.config.set_dtype_policy(policy)
    try:
        model = build_model("all its parts", 20, Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0))
        settings |= {"loss_scaling": policy == "mixed_float16"}
        step = TrainStep(model, SpeechModel(Config()), FORM.signature(), StepSettings(**settings))
        return step, step._graphs
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    ("policy", "settings"),
    [("float32", {}), ("mixed_bfloat16", {"compiled": Compiled.UPDATE}),
     ("mixed_float16", {"muon": False, "grad_accum": 2})],
)  # fmt: skip
def test_no_step_and_no_validation_of_speech_is_refused(policy, settings):
    step, graphs = graphs_of_a_step(policy, **settings)
    for graph in graphs:
        assert not_deterministic(graph) == set()
    validation = Validation(step._model, step._task, FORM.signature(), step, lambda batch: None)
    assert not_deterministic(validation._step.get_concrete_function()) == set()


def test_no_step_of_the_vocoder_is_refused():
    model = build_generator("tiny", Scale(-5.0, 2.0, 5.0, 0.3), BASIS)
    step = TrainStep(model, VocoderModel(Config()), VOCODER_FORM.signature(), StepSettings())
    for graph in step._graphs:
        assert not_deterministic(graph) == set()


def test_nor_are_the_features_of_a_batch():
    extractor = FeatureExtractor(BASIS, for_gpu=True)
    rows = tf.TensorSpec([4, pad_length(160)], tf.float32), tf.TensorSpec([4], tf.int32)
    for function in (extractor._all, extractor._mel_only):
        assert not_deterministic(function.get_concrete_function(*rows)) == set()


def test_what_would_be_refused_or_taken_to_the_host_is_found():
    @tf.function(autograph=False)
    def step(x, labels):
        counted = tf.math.bincount(labels, minlength=4, maxlength=4)
        scattered = tf.scatter_nd(labels[:, tf.newaxis], x, [4])
        drawn = tf.raw_ops.RandomUniform(shape=[4], dtype=tf.float32)
        return tf.cast(counted, tf.float32) + scattered + drawn

    concrete = step.get_concrete_function(
        tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int32)
    )
    assert not_deterministic(concrete) == {
        "DenseBincount: refused",
        "ScatterNd: runs on the host",
        "RandomUniform: no seed decides it",
    }


def test_a_gradient_that_only_xla_refuses_is_found_where_it_compiles():
    @tf.function(jit_compile=True, autograph=False)
    def compiled(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.nn.max_pool2d(x, 2, 2, "VALID"))
        return tape.gradient(loss, x)

    outer = tf.function(lambda x: compiled(x), autograph=False)
    concrete = outer.get_concrete_function(tf.TensorSpec([1, 4, 4, 1], tf.float32))
    assert not_deterministic(concrete) == {"MaxPoolGrad: refused by XLA"}


def test_the_list_is_that_of_the_tensorflow_that_is_installed():
    assert refused_by_the_library() == set(REFUSED)


@pytest.mark.parametrize(
    "said",
    ["A deterministic GPU implementation of AdjustContrastv2 is not currently available.",
     "Determinism is not yet supported in GPU implementation of DenseBincount.",
     "Deterministic GPU implementation of CropAndResizeBackpropImage not available."],
)  # fmt: skip
def test_a_refusal_in_a_run_is_told_with_what_to_do(said):
    error = tf.errors.UnimplementedError(
        None, None, f"Graph execution error:\n\n{said}\n\t [[node]]"
    )
    words = failure_in_words(error)
    assert words.endswith("refuses it with --deterministic. Leave that out, or the operation")
    assert words.split()[0] in ("AdjustContrastv2", "DenseBincount", "CropAndResizeBackpropImage")
