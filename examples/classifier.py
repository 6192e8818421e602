"""A classifier of pictures: one folder of pictures for each class.

    python examples/make_pictures.py pictures
    python launcher.py --task examples/classifier.py --train-data pictures --fake-gpus 2 \
        --data-gpu 0 --model-gpu 1 --max-steps 300 --run-dir runs/pictures
"""

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from shared.task import Array, DataSide, Example, Looked, ModelSide

SIZE = 32


class Data(DataSide):
    arrays = {"picture": Array("float32", SIZE, SIZE, 3), "label": Array("int32")}

    def examples(self, folder):
        for path in sorted(folder.glob("*/*.png")):
            name = path.relative_to(folder).as_posix()
            yield Example(id=name, path=name, group=path.parent.name)

    def look(self, example, path):
        Image.open(path).verify()  # what it raises is why this picture is left out
        return Looked()

    def read(self, example):
        with Image.open(example.path) as picture:
            return np.asarray(picture.convert("RGB").resize((SIZE, SIZE)), np.float32) / 255

    def row(self, example, features, companion):
        return {"picture": features, "label": example["group"]}


class Model(ModelSide):
    unit = "pictures"

    def build(self, facts):
        layers = [keras.layers.Input((SIZE, SIZE, 3))]
        for filters in (16, 32, 64):
            layers += [keras.layers.Conv2D(filters, 3, 2, "same", use_bias=False),
                       keras.layers.BatchNormalization(momentum=0.9), keras.layers.ReLU()]  # fmt: skip
        layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.1),
                   keras.layers.Dense(len(facts.groups))]  # fmt: skip
        return keras.Sequential(layers)

    def losses(self, model, batch, training, step):
        logits = model(batch["picture"], training=training)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return {"cross_entropy": tf.reduce_sum(each * batch["weight"])}

    def optimizer(self, player):
        return keras.optimizers.Adam(1e-3)
