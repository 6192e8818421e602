"""A small task, and mistakes that people make in one: what each is, and what has to be said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

SOUND = """\
import keras
import numpy as np
import tensorflow as tf

from shared.task import Array, DataSide, Example, ModelSide


class Data(DataSide):
    arrays = {"x": Array("float32", 6), "label": Array("int32")}
    patience_s = 1.0

    def examples(self, folder):
        for path in sorted(folder.iterdir()):
            yield Example(path.stem, path.name, group=path.stem[0])

    def read(self, example):
        return np.fromfile(example.path, np.float32)

    def features(self, raws, shape):
        return [raw * 2 for raw in raws]

    def row(self, example, features, companion):
        return {"x": features, "label": example["group"]}


class Model(ModelSide):
    def build(self, facts):
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(len(facts.groups))])

    def losses(self, model, batch, training, step):
        logits = model(batch["x"], training=training)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return {"cross_entropy": tf.reduce_sum(each * batch["weight"])}

    def weight(self, batch):
        return batch["weight"]
"""
NUM_EXAMPLES = 24


@dataclasses.dataclass(frozen=True)
class Mistake:
    """Text of the sound task, what stands in its place, and what validate and a run say of it."""

    old: str
    new: str
    told: str  # by validate: a regular expression
    in_run: str = ""  # the same; empty where it is the same sentence
    status: int = 2  # of the run

    @property
    def file(self) -> str:
        assert self.old in SOUND
        return SOUND.replace(self.old, self.new, 1)


MISTAKES = {
    "wrong shape": Mistake(
        '"x": features,', '"x": features[:4],',
        r"mine\.py line 22 \(row\): array x of example \w+ has the shape \(4,\); declared is \(6\)",
    ),
    "wrong dtype": Mistake(
        'example["group"]}', 'example["group"] + 0.5}',
        r"mine\.py line 22 \(row\): array label of example \w+ is float64; declared is int32\.",
    ),
    "dtype that no batch has": Mistake(
        'Array("int32")', 'Array("complex64")',
        r"mine\.py line 8 \(class Data\): array 'label' is complex64; expected one of float32, ",
    ),
    "missing method": Mistake(
        "def losses", "def loses",
        r"mine\.py line 26: class Model has no losses\. Every ModelSide needs build, losses\.",
    ),
    "impure features": Mistake(
        "raw * 2 for", "raw * np.random.rand() for",
        r"mine\.py line 19 \(features\): the result of example \w+ is another made a second time\. "
        r"It must depend on the example alone",
        r"mine\.py line 19 \(features\): the result of example \w+ is another when it is made again",
        status=0,
    ),
    "a read that raises": Mistake(
        "np.fromfile(example.path, np.float32)", 'example.payload["x"]',
        r"mine\.py line 17 \(in read\): TypeError: 'NoneType' object is not subscriptable at "
        r"'return example\.payload\[\"x\"\]'\. The engine was asking for an example from its file\.",
        status=1,
    ),
    "a read that hangs": Mistake(
        "return np.fromfile", "__import__('time').sleep(300); return np.fromfile",
        r"mine\.py line 17 \(in read\): (reading example \w+ )?did not come back within \d+ s",
        status=1,
    ),
    "a loss that is NaN": Mistake(
        "tf.reduce_sum(each * batch", "tf.math.log(-1.0) * tf.reduce_sum(each * batch",
        r"mine\.py line 30 \(losses\): the part 'cross_entropy' of the loss is nan before the first "
        r"step\. Look for a logarithm",
        r"mine\.py line 30 \(losses\): the part 'cross_entropy' of the loss is not finite\. The "
        r"numbers .* Look there for a logarithm",
        status=1,
    ),
    "a loss of no gradient": Mistake(
        'model(batch["x"], training=training)', 'tf.stop_gradient(model(batch["x"]))',
        r"mine\.py line 30 \(losses\): the loss does not depend on any of the model's variables",
    ),
    "weights of zero": Mistake(
        'return batch["weight"]', 'return batch["weight"] * 0',
        r"mine\.py line 35 \(weight\): the weight of a batch of real examples is 0; expected a",
        r"mine\.py line 35 \(weight\): the weight of the last \d+ batches was not above 0",
    ),
    "a lambda that can't be traced": Mistake(
        "keras.layers.Dense(", "keras.layers.Lambda(lambda x: x.numpy()), keras.layers.Dense(",
        r"mine\.py line 27 \(build\): the model has no variables to train, as Keras could not build "
        r"it\. Give it an Input, and a Lambda no \.numpy\(\)",
    ),
    "an import that is missing": Mistake(
        "import keras", "import kerass",
        r"mine\.py line 1: ModuleNotFoundError: No module named 'kerass' at 'import kerass'\.",
    ),
}  # fmt: skip


def write_data(folder: Path) -> Path:
    """Examples of two groups, six numbers each."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(NUM_EXAMPLES):
        values = random.normal(size=6).astype(np.float32)
        values.tofile(folder / f"{'ab'[number % 2]}{number:02d}.f32")
    return folder
