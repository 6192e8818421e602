"""A small untrained voice as the ONNX files that `export` writes, for tests of what speaks them."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import onnx
import tensorflow as tf

from model_worker.speech.network.acoustic_model import (
    SHAPES,
    AcousticModel,
    ModelShape,
    build_model,
)
from model_worker.speech.onnx import graphs
from model_worker.speech.onnx.conversion import converted
from model_worker.vocoder.generator import Generator, GeneratorShape, Scale
from shared.run.files import npy_bytes
from shared.speech.corpus_statistics import Statistics

# Slaney filters are not needed here: any basis will do.
BASIS = np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50
TABLE = ["_", "<s>", "</s>", " ", *"abcdefghijklmnopqrstuvwxyz,.!?", "ä", "ç"]


def small_model() -> AcousticModel:
    keras.utils.set_random_seed(3)
    shape = ModelShape(32, 1, 32, 1, 16, 16, 1, 8, 0.0)
    with mock.patch.dict(SHAPES, {"smallest": shape}):
        return build_model("smallest", len(TABLE), Statistics(-5.0, 2.0, 5.0, 0.3, 1.0, 1.0))


def small_generator() -> Generator:
    keras.utils.set_random_seed(4)
    generator = Generator(GeneratorShape(16, 1, 32), Scale(-5.0, 2.0, 5.0, 0.2), BASIS)
    generator.speak(tf.zeros([1, 4, 80]))
    return generator


def vectors_of(model: AcousticModel, num_speakers: int) -> np.ndarray:
    references = np.random.default_rng(1).normal(-5, 2, (num_speakers, 192, 80))
    return model.voice_of(references.astype(np.float32)).numpy()


def write_voice(folder: Path, speakers: list[str]) -> None:
    """What a server needs of an exported voice."""
    model = small_model()
    for graph in (graphs.text_to_mel(model), graphs.vocoder(small_generator())):
        onnx.save(converted(graph), str(folder / f"{graph.name}.onnx"))
    (folder / "voices.npy").write_bytes(npy_bytes(vectors_of(model, len(speakers))))
    about = {
        "symbol_table": TABLE, "frontend": "characters", "language": "en-us", "speakers": speakers,
        "sample_rate": 22_050, "step": 7,
    }  # fmt: skip
    (folder / "symbols.json").write_text(json.dumps(about), encoding="utf-8")
