"""An exported voice says in a process without our code what it says in ours."""

import json
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.speaking import export
from model_worker.speech.speaking.exported_voice import ExportedVoice
from model_worker.vocoder.generator import Generator, GeneratorShape, Scale
from shared.speech.corpus_statistics import Statistics
from shared.speech.mel import log_mel

# Slaney filters are not needed here: any basis will do.
BASIS = np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50
SYMBOLS = np.array([[1, 5, 6, 7, 8, 2], [1, 9, 2, 0, 0, 0]], np.int32)
LENGTHS = np.array([6, 3], np.int32)
REFERENCES = np.random.default_rng(1).normal(-5, 2, (2, 192, 80)).astype(np.float32)
RECORDING = np.random.default_rng(2).normal(0, 0.1, 60_000).astype(np.float32)

STRANGER = """
import json, sys
import numpy as np, tensorflow as tf
voice = tf.saved_model.load(sys.argv[1])
arrays = np.load(sys.argv[2])
given = dict(symbols=tf.constant(arrays["symbols"]), symbol_lengths=tf.constant(arrays["lengths"]),
             reference_mel=tf.constant(arrays["references"]), speed=tf.constant(0.5),
             pitch_shift=tf.constant(2.0))
out = {**voice.signatures["mel"](**given), **voice.signatures["waveform"](**given),
       **voice.signatures["reference"](recording=tf.constant(arrays["recording"]))}
np.savez(sys.argv[3], **{name: value.numpy() for name, value in out.items()})
ours = [name for name in sys.modules if name.split(".")[0] in ("model_worker", "shared", "keras")]
print(json.dumps([ours, sorted(voice.signatures)]))
"""


@pytest.fixture(scope="module")
def exported():
    keras.utils.set_random_seed(3)
    model = build_model("tiny", 20, Statistics(-5.0, 2.0, 5.0, 0.3, 1.0, 1.0))
    return ExportedVoice(model, BASIS, normalise_loudness=True)


@pytest.fixture(scope="module")
def exported_with_vocoder():
    keras.utils.set_random_seed(4)
    model = build_model("tiny", 20, Statistics(-5.0, 2.0, 5.0, 0.3, 1.0, 1.0))
    generator = Generator(GeneratorShape(16, 1, 32), Scale(-5.0, 2.0, 5.0, 0.2), BASIS)
    generator.speak(tf.zeros([1, 4, 80]))
    return ExportedVoice(model, BASIS, normalise_loudness=True, generator=generator)


@pytest.mark.parametrize("name", ["exported", "exported_with_vocoder"])
def test_a_fresh_process_elsewhere_gets_the_same_speech(request, name, tmp_path):
    exported = request.getfixturevalue(name)
    tf.saved_model.save(exported, str(tmp_path / "voice"), signatures=exported.signatures())
    np.savez(
        tmp_path / "given.npz", symbols=SYMBOLS, lengths=LENGTHS, references=REFERENCES,
        recording=RECORDING,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER, "voice", "given.npz", "out.npz"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours, signatures = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in ours if not name.startswith("keras")] == []
    assert {"mel", "waveform", "reference", "serving_default"} <= set(signatures)
    found = np.load(tmp_path / "out.npz")
    given = (SYMBOLS, LENGTHS, REFERENCES, tf.constant(0.5), tf.constant(2.0))
    for array, value in {**exported.mel(*given), **exported.waveform(*given)}.items():
        np.testing.assert_allclose(found[array], value.numpy(), atol=1e-4, err_msg=array)
    assert found["mel"].shape[2] == 80 and found["mel_lengths"].shape == (2,)
    np.testing.assert_array_equal(found["waveform_lengths"], found["mel_lengths"] * 256)
    assert found["reference_mel"].shape == (1, 192, 80)


def test_the_reference_graph_computes_the_mel_of_training(exported):
    levelled = RECORDING * np.float32(0.95 / np.abs(RECORDING).max())
    expected = log_mel(levelled, BASIS)
    found = exported.reference(RECORDING)["reference_mel"].numpy()[0]
    start = (len(expected) - 192) // 2
    np.testing.assert_allclose(found, expected[start : start + 192], atol=1e-3)


@pytest.mark.parametrize("num_samples", [1024, 10_000, 192 * 256, 193 * 256])
def test_a_recording_of_any_length_makes_a_reference(exported, num_samples):
    found = exported.reference(RECORDING[:num_samples])["reference_mel"].numpy()[0]
    num_frames = min(num_samples // 256, 192)
    repeated = found[num_frames : 2 * num_frames]
    np.testing.assert_array_equal(repeated, found[: len(repeated)])


def test_the_example_is_in_the_voice_s_own_language(monkeypatch):
    class Encoder:
        """Knows every sound but those of the long sentence, and reads any script."""

        def __init__(self):
            self.unknown = {}

        @classmethod
        def of_index(cls, index):
            return cls()

        def encode(self, text):
            self.unknown |= {"ɔɪ": "voice"} if "voice" in text else {}
            return [SimpleNamespace(symbols=np.array([4, 5]))]

    monkeypatch.setattr(export, "TextEncoder", Encoder)
    index = SimpleNamespace(
        text={"frontend": "phonemes", "language": "en-us"}, symbol_table=list("_<>?ab"), ids=["clip"],
        symbols=[np.array([5, 5])],
    )  # fmt: skip
    assert export._example(index)[0] == "Hello there."
    index.text["language"] = "sw"
    assert export._example(index)[0] == "clip"
