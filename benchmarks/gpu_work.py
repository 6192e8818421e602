"""Work on the stand-in for a GPU: each piece done a few times, then once with a record, then timed.

    python benchmarks/gpu_work.py step small bfloat16 / step small adamw accumulated / features 640

is what `gpu_launches.py` and the tests start, in the environment of `stand_in_gpu.py`. What it prints
last is JSON, a line for each piece.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shared.config.settings import Config
from shared.worker.start import start_tensorflow

ROWS, FRAMES, SYMBOLS = 32, 640, 96
LONG_FRAMES = 1280  # that few clips are longer than
WARM_UP, MEASURED = 3, 6
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
Work = Callable[[], object]


def filled(arrays: dict[str, tuple[str, tuple[int, ...]]], **full: int) -> dict[str, np.ndarray]:
    """Arrays that say nothing; `full` are the values of some."""
    made = {}
    for name, (dtype, shape) in arrays.items():
        made[name] = np.full(shape, full.get(name, 1), dtype)
    return made


def on_device(arrays: dict[str, np.ndarray]) -> dict:
    """As the training loop gets them."""
    import tensorflow as tf

    with tf.device("/GPU:0"):
        return {name: tf.identity(tf.convert_to_tensor(array)) for name, array in arrays.items()}


def training(words: list[str], vocoder: bool = False) -> tuple:
    """Model, task, form and batch of a task; as a model process has them."""
    import keras

    from model_worker.training.precision import precision_of
    from shared.task import BatchShape

    keras.utils.set_random_seed(1)
    named = [word for word in words if word in PRECISIONS]
    precision = precision_of(named[0] if named else "tf32", "gpu")
    precision.settle()
    size = words[0]
    if vocoder:
        from model_worker.vocoder.generator import Scale, build_generator
        from model_worker.vocoder.task import VocoderModel
        from shared.vocoder.batch import FORM

        model = build_generator(size, Scale(-5.0, 2.0, 5.0, 0.3), mel_basis())
        return model, VocoderModel(Config()), FORM, filled(BatchShape(ROWS, (), FORM).arrays())
    from model_worker.speech.network.acoustic_model import SHAPES, ModelShape, build_model
    from model_worker.speech.task import SpeechModel
    from shared.speech.batch import FORM as SPEECH
    from shared.speech.corpus_statistics import Statistics

    # Every layer and option of the model, as small as they go.
    SHAPES["least"] = ModelShape(16, 1, 16, 1, 8, 8, 1, 4, dropout=0.1, expansion=1.0)
    model = build_model(size, 60, Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0))
    arrays = BatchShape(ROWS, (FRAMES, SYMBOLS), SPEECH).arrays()
    batch = filled(arrays, symbol_lengths=SYMBOLS, mel_lengths=FRAMES)
    return model, SpeechModel(Config()), SPEECH, batch


def put_a_wait_into(task) -> None:
    """A branch by what the device found out: the host asks for it, in every step."""
    import tensorflow as tf

    losses = task.losses

    def waiting(*arguments):
        parts = losses(*arguments)
        first = next(iter(parts))
        half = tf.cond(parts[first] > 1e6, lambda: parts[first] * 0.5, lambda: parts[first])
        return {**parts, first: half}

    task.losses = waiting


def mel_basis() -> np.ndarray:
    import librosa

    return librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)


def train_step(words: list[str], vocoder: bool = False):
    """A step with its batch on the device."""
    from model_worker.training.step import Compiled, StepSettings, TrainStep

    model, task, form, arrays = training(words, vocoder)
    if "waiting" in words:
        put_a_wait_into(task)
    settings = StepSettings(
        muon="adamw" not in words,
        grad_accum=2 if "accumulated" in words else 1,
        compiled=next((each for each in Compiled if each.value in words), Compiled.UPDATE),
        loss_scaling="float16" in words,
    )
    return TrainStep(model, task, form.signature(), settings), on_device(arrays), task, form


def step_of(words: list[str], vocoder: bool = False) -> Work:
    step, batch, task, form = train_step(words, vocoder)
    if "replica" in words:
        from model_worker.training.shared_step import SharedStep

        shared = SharedStep(step, task, form.signature())
        shared.warm_up()

        def by_replica() -> None:
            shared.begin()
            said = shared.say(batch, 1, 0)
            shared.note_log(said.log)
            shared.apply(said.vector, said.operands[np.newaxis], 1e-3, 0.999)

        return by_replica
    step.warm_up()
    if "accumulated" in words:
        return lambda: (step(batch, 1, 1e-3, 0.999, False), step(batch, 1, 1e-3, 0.999, True))
    return lambda: step(batch, 1, 1e-3, 0.999)


def validation_of(words: list[str]) -> Work:
    from model_worker.training.validation import Validation

    step, batch, task, form = train_step(words)
    validation = Validation(step._model, task, form.signature(), step, lambda batch: None)
    return lambda: validation.add(batch)


def features_of(words: list[str]) -> Work:
    from data_worker.speech.features import FeatureExtractor
    from data_worker.speech.padded_rows import pad_length

    frames = int(words[0])
    extractor = FeatureExtractor(mel_basis())
    audio = np.zeros((ROWS, pad_length(frames)), np.float32)
    lengths = np.full(ROWS, frames, np.int32)
    if "references" in words:
        return lambda: extractor.mel(audio, lengths)
    return lambda: extractor(audio, lengths)


def speaking_of(words: list[str]) -> Work:
    import tensorflow as tf

    from model_worker.speech.speaking.speaking_graph import speaking_function

    model, _, _, arrays = training(words)
    speak = speaking_function(model).get_concrete_function()
    given = [arrays[name][:1] for name in ("symbols", "symbol_lengths", "reference_mel")]
    given = [tf.constant(each) for each in (*given, np.float32(1), np.float32(0))]
    return lambda: speak(*given)


KINDS: dict[str, Callable[[list[str]], Work]] = {
    "step": step_of,
    "vocoder": lambda words: step_of(words, vocoder=True),
    "validation": validation_of,
    "features": features_of,
    "speaking": speaking_of,
}


def measured(work: Work, tf) -> dict:
    from stand_in_gpu import Recording

    for _ in range(WARM_UP):
        work()
    tf.test.experimental.sync_devices()
    with Recording() as recording:
        work()
    asked = recording.asked
    times_ms, host_ms = [], []
    for _ in range(MEASURED):
        begun_s = time.monotonic()
        work()
        host_ms.append((time.monotonic() - begun_s) * 1e3)
        times_ms.append((recording.done_at_s - begun_s) * 1e3)
        tf.test.experimental.sync_devices()
    return {
        "launches": asked.launches,
        "library_calls": asked.library_calls,
        "graphs": asked.graphs,
        "in_all": asked.in_all,
        "to_host": asked.to_host,
        "to_device": asked.to_device,
        "waits": asked.waits,
        "peak_mb": tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20,
        "busy_ms": asked.busy_s * 1e3,
        "host_ms": min(host_ms),
        "step_ms": min(times_ms),
        "usual_step_ms": statistics.median(times_ms),
        "names": asked.names.most_common(),
    }


def main() -> None:
    works = [work.split() for work in " ".join(sys.argv[1:]).split("/")]
    role = "data" if works[0][0] == "features" else "model"
    tf = start_tensorflow(role, "gpu", Config())
    for kind, *words in works:
        print(json.dumps(measured(KINDS[kind](words), tf)), flush=True)
    os._exit(0)  # the stand-in has nothing to give back


if __name__ == "__main__":
    main()
