"""Features of a frozen network, computed on the data GPU; only a head is trained on the model GPU.

    python examples/make_pictures.py pictures
    python launcher.py --task examples/frozen_network.py --train-data pictures --cache off \
        --fake-gpus 2 --data-gpu 0 --model-gpu 1 --max-steps 200 --run-dir runs/frozen

This is what two GPUs are for: features that cost as much as the training step. The network here has
seeded weights, so that the example needs no download; yours comes from a file.
"""

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from shared.task import Array, DataSide, Example, Looked, ModelSide, stacked

SIZE, PATCHES, CHANNELS = 64, 64, 192
FROZEN_LAYERS, HEAD_LAYERS = 8, 2


def frozen_network():
    """Pictures (rows, 64, 64, 3) to (rows, 8, 8, 192); built once in each data process."""
    seeds = iter(range(1, 100))

    def convolution(strides):
        start = keras.initializers.HeNormal(seed=next(seeds))
        return keras.layers.Conv2D(
            CHANNELS, 3, strides, "same", activation="relu", kernel_initializer=start
        )

    layers = [keras.layers.Input((SIZE, SIZE, 3)), *(convolution(2) for _ in range(3))]
    return keras.Sequential([*layers, *(convolution(1) for _ in range(FROZEN_LAYERS))])


class Data(DataSide):
    arrays = {"patches": Array("float32", PATCHES, CHANNELS), "label": Array("int32")}

    def examples(self, folder):
        for path in sorted(folder.glob("*/*.png")):
            name = path.relative_to(folder).as_posix()
            yield Example(id=name, path=name, group=path.parent.name)

    def look(self, example, path):
        Image.open(path).verify()
        return Looked()

    def open(self, index):
        network = frozen_network()
        self.network = tf.function(lambda pictures: network(pictures, training=False))

    def recipe(self):
        return {"tensorflow": tf.__version__, "keras": keras.__version__}

    def read(self, example):
        with Image.open(example.path) as picture:
            return np.asarray(picture.convert("RGB").resize((SIZE, SIZE)), np.float32) / 255

    def features(self, raws, shape):
        # Always as many rows, so that a picture is computed the same way in any company.
        found = self.network(stacked(raws, shape)).numpy()
        return list(found.reshape(shape.rows, PATCHES, CHANNELS)[: len(raws)])

    def row(self, example, features, companion):
        return {"patches": features, "label": example["group"]}


class Model(ModelSide):
    unit = "pictures"

    def build(self, facts):
        patches = keras.layers.Input((PATCHES, CHANNELS))
        x = keras.layers.LayerNormalization()(patches)
        for _ in range(HEAD_LAYERS):
            x = x + keras.layers.MultiHeadAttention(4, CHANNELS // 4)(x, x)
            x = keras.layers.LayerNormalization()(x)
            x = x + keras.layers.Dense(CHANNELS)(keras.layers.Dense(4 * CHANNELS, "gelu")(x))
        x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(x))
        return keras.Model(patches, keras.layers.Dense(len(facts.groups))(x))

    def losses(self, model, batch, training, step):
        logits = model(batch["patches"], training=training)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return {"cross_entropy": tf.reduce_sum(each * batch["weight"])}
