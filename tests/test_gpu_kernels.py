"""Every graph of speech would run on a GPU from end to end: seen in TensorFlow's registry, without one."""

import sys
from pathlib import Path

import keras
import librosa
import pytest
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from gpu_kernels import loops, trips, without_kernel

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import pad_length
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import Statistics, build_model
from model_worker.speech.speaking.exported_voice import ExportedVoice
from model_worker.speech.speaking.speaking_graph import speaking_function
from model_worker.speech.speaking.vocoder import GriffinLim
from model_worker.speech.task import SpeechModel
from model_worker.training.step import Compiled, StepSettings, TrainStep
from model_worker.training.validation import Validation
from model_worker.vocoder.generator import Generator, GeneratorShape, Scale
from model_worker.vocoder.task import VocoderModel
from shared.config.settings import Config
from shared.speech.batch import FORM
from shared.vocoder.batch import FORM as VOCODER_FORM

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
# Every layer and option of the model, as small as they go.
acoustic_model.SHAPES["all parts"] = acoustic_model.ModelShape(
    16, 1, 16, 1, 8, 8, 1, 4, dropout=0.1, expansion=1.0
)


def make_step(policy: str = "float32", **settings) -> TrainStep:
    keras.config.set_dtype_policy(policy)
    try:
        model = build_model("all parts", 20, Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0))
        settings |= {"loss_scaling": policy == "mixed_float16", "compiled": Compiled.UPDATE}
        step = TrainStep(model, SpeechModel(Config()), FORM.signature(), StepSettings(**settings))
        step.warm_up()
        return step
    finally:
        keras.config.set_dtype_policy("float32")


def assert_stays_on_the_device(concrete):
    assert without_kernel(concrete) == set()
    assert loops(concrete) == []
    assert dict(trips(concrete)) == {}


@pytest.fixture(scope="module")
def step():
    return make_step()


def test_a_step_has_nothing_to_ask_of_the_host(step):
    (graph,) = step._graphs
    assert_stays_on_the_device(graph)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_nor_has_a_step_of_a_group_in_half_precision_with_adamw(policy):
    for graph in make_step(policy, muon=False, grad_accum=2)._graphs:
        assert_stays_on_the_device(graph)


def test_nor_have_validation_and_the_reading_of_numbers(step):
    validation = Validation(step._model, step._task, FORM.signature(), step, lambda batch: None)
    assert_stays_on_the_device(validation._step.get_concrete_function())
    assert_stays_on_the_device(step._take_numbers.get_concrete_function())


def test_nor_have_the_features_of_a_batch():
    extractor = FeatureExtractor(BASIS, for_gpu=True)
    rows = tf.TensorSpec([4, pad_length(160)], tf.float32), tf.TensorSpec([4], tf.int32)
    for function in (extractor._all, extractor._mel_only):
        concrete = function.get_concrete_function(*rows)
        assert without_kernel(concrete) == set()
        assert loops(concrete) == []
        # Lengths come from the host, and only there something is counted with them.
        assert {trip for trip in trips(concrete) if not trip.endswith("int32")} == set()


def test_everything_that_speaks_has_kernels(step):
    voice = ExportedVoice(step._model, BASIS, normalise_loudness=True)
    graphs = [
        speaking_function(step._model).get_concrete_function(),
        GriffinLim(BASIS)._graph.get_concrete_function(),
        *voice.signatures().values(),
    ]
    for graph in graphs:
        assert without_kernel(graph) == set()


@pytest.fixture(scope="module")
def vocoder_step():
    keras.utils.set_random_seed(3)
    model = Generator(GeneratorShape(16, 1, 32), Scale(-5.0, 2.0, 5.0, 0.3), BASIS)
    model.speak(tf.zeros([1, 4, 80]))
    model.built = True
    settings = StepSettings(compiled=Compiled.UPDATE)
    return TrainStep(model, VocoderModel(Config()), VOCODER_FORM.signature(), settings)


def test_nor_has_a_step_of_the_vocoder(vocoder_step):
    (graph,) = vocoder_step._graphs
    assert without_kernel(graph) == set()
    assert loops(graph) == []
    assert {trip for trip in trips(graph) if "int16" not in trip} == set()


def test_the_vocoder_that_validates_and_speaks_has_kernels(vocoder_step):
    step = vocoder_step
    form = VOCODER_FORM.signature()
    validation = Validation(step._model, step._task, form, step, lambda batch: None)
    mel = tf.TensorSpec([None, None, 80], tf.float32)
    speak = tf.function(step._model.speak, autograph=False).get_concrete_function(mel)
    for graph in (validation._step.get_concrete_function(), speak):
        assert without_kernel(graph) == set()
        assert loops(graph) == []


def test_what_would_wait_for_the_host_is_found():
    signature = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)]

    @tf.function(input_signature=signature, autograph=False)
    def waiting(whole, broken):
        words = tf.strings.as_string(broken)
        counted = tf.while_loop(lambda n: n < tf.reduce_max(broken), lambda n: [n + 1.0], [0.0])
        return whole[1:] < whole[:-1], words, counted

    concrete = waiting.get_concrete_function()
    assert without_kernel(concrete) == {"AsString(float32)"}
    assert len(loops(concrete)) == 1
    assert trips(concrete)["Placeholder → StridedSlice, int32"] == 2
