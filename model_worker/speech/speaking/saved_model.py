"""A voice as a SavedModel.

DIR/saved_model.pb  variables/     signatures mel, waveform, reference
DIR/voices.npy                     float32 (speakers, 192, 80): a reference of each speaker
DIR/README.md                      how to use it
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from model_worker.speech.speaking.export_usage import usage
from model_worker.speech.speaking.exported_voice import ExportedVoice
from model_worker.speech.speaking.loaded_voice import load_model
from model_worker.speech.speaking.voice_to_export import VoiceToExport
from model_worker.vocoder.speaking import load_generator
from shared.run.files import npy_bytes
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import SAMPLE_RATE


def write_saved_model(folder: Path, name: str, voice: VoiceToExport) -> None:
    """Write it to `folder`, which will be called `name`."""
    index, about = voice.index, voice.about
    model = load_model(index, voice.config.task.model_size, voice.checkpoint)
    generator = load_generator(voice.vocoder) if voice.vocoder else None
    exported = ExportedVoice(
        model, index.mel_basis, voice.config.task.normalise_loudness, generator
    )
    tf.saved_model.save(exported, str(folder), signatures=exported.signatures())
    (folder / "voices.npy").write_bytes(npy_bytes(np.stack(list(voice.references.values()))))
    readme = usage(
        name, about["frontend"], about["language"], about["example"]["text"], SAMPLE_RATE,
        REFERENCE_FRAMES, "its own vocoder" if voice.vocoder else "Griffin-Lim",
    )  # fmt: skip
    (folder / "README.md").write_text(readme, encoding="utf-8")
