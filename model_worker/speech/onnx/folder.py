"""A voice as ONNX files.

DIR/voice.onnx  voice.onnx.json    the whole way in one file, as Piper's voices are
DIR/text-to-mel.onnx               symbols and a voice's vector to mels
DIR/reference-encoder.onnx         a recording to a voice's vector
DIR/vocoder.onnx                   mels to samples
DIR/voices.npy                     float32 (speakers, vector size)
DIR/README.md                      how to use them
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from model_worker.speech.onnx import graphs
from model_worker.speech.onnx.conversion import MOST_APART, OPSET, apart, converted
from model_worker.speech.onnx.half_precision import with_half_weights
from model_worker.speech.onnx.piper_convention import phoneme_map, piper_config
from model_worker.speech.onnx.usage import usage
from model_worker.speech.speaking.loaded_voice import load_model
from model_worker.speech.speaking.voice_to_export import VoiceToExport
from model_worker.vocoder.speaking import load_generator
from shared.errors import TandemError
from shared.run.files import npy_bytes
from shared.speech.mel import SAMPLE_RATE

_SHOWN_SYMBOLS = 20


def write_onnx(
    folder: Path, name: str, voice: VoiceToExport, quantise: bool, say: Callable[[str], None]
) -> None:
    """Write it to `folder`, which will be called `name`; says how far ONNX is from TensorFlow.

    Raises:
        TandemError: too far.
    """
    assert voice.vocoder is not None, "the command asked for one"
    index, about = voice.index, voice.about
    table, speakers = index.symbol_table, list(voice.references)
    model = load_model(index, voice.config.task.model_size, voice.checkpoint)
    generator = load_generator(voice.vocoder)
    references = np.stack(list(voice.references.values()))
    vectors = model.voice_of(references).numpy()
    known = phoneme_map(table)
    if known.unreachable:
        shown = " ".join(known.unreachable[:_SHOWN_SYMBOLS])
        say(f"⚠️  Piper's way of reading a text never leads to these symbols: {shown}")
    folder.mkdir()

    def write(graph: graphs.Graph, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        made = converted(graph)
        distance, found = apart(graph, made, given)
        if distance > MOST_APART:
            raise TandemError(
                f"{graph.name}.onnx says something else than TensorFlow: they differ by "
                f"{distance:.1e}, where at most {MOST_APART:g} was expected. Please report this with "
                "the versions of tensorflow, tf2onnx and onnxruntime."
            )
        words = f"TensorFlow and ONNX differ by {distance:.1e} at most"
        if quantise:
            made = with_half_weights(made)
            words += f", with halved weights by {apart(graph, made, given)[0]:.1e}"
        onnx.checker.check_model(made)
        path = folder / f"{graph.name}.onnx"
        onnx.save(made, str(path))
        say(f"   {path.name}: opset {OPSET}, {path.stat().st_size / 1e6:.1f} MB; {words}")
        return found

    example = _numbers_of(about["example"]["symbols"], table)
    spoken = write(graphs.text_to_mel(model), {
        "symbols": example[np.newaxis], "symbol_lengths": np.array([len(example)]),
        "voice": vectors[:1], "speed": np.ones([1, len(example)], np.float32), "pitch_shift": np.zeros([1, len(example)], np.float32),
    })  # fmt: skip
    recording = np.random.default_rng(1).normal(0.0, 0.1, 2 * SAMPLE_RATE).astype(np.float32)
    levelled = voice.config.task.normalise_loudness
    write(graphs.reference_encoder(model, index.mel_basis, levelled), {"recording": recording})
    write(graphs.vocoder(generator), {"mel": spoken["mel"]})
    whole = graphs.piper_voice(model, generator, vectors, known, len(table))
    write(whole, _as_piper_asks(example, len(speakers)))
    config = piper_config(table, about["frontend"], about["language"], speakers)
    (folder / "voice.onnx.json").write_text(
        json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    (folder / "voices.npy").write_bytes(npy_bytes(vectors))
    readme = usage(
        name, about["frontend"], about["language"], about["example"]["text"], len(speakers)
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


def _numbers_of(symbols: str, table: list[str]) -> np.ndarray:
    """int64 (symbols,), with the silence at both ends."""
    return np.array([1, *(table.index(symbol) for symbol in symbols if symbol in table), 2])


def _as_piper_asks(symbols: np.ndarray, num_speakers: int) -> dict[str, np.ndarray]:
    padded = np.zeros(2 * len(symbols) - 1, np.int64)
    padded[::2] = symbols
    given = {
        "input": padded[np.newaxis],
        "input_lengths": np.array([len(padded)]),
        "scales": np.array([0.0, 1.0, 0.0], np.float32),
    }
    return given | ({"sid": np.array([0])} if num_speakers > 1 else {})
