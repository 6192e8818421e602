"""The same held-out sentences, spoken at each validation: samples/step-000500/0.wav and 0.png.

Beside them samples/recorded/0.wav: the recording's own mel through the same vocoder, which is as
good as any voice can sound here. Nothing here touches any random state.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from model_worker.speech.speaking.loaded_voice import Spoken
from model_worker.speech.speaking.speaking_graph import speaking_function
from model_worker.speech.speaking.vocoder import Vocoder, chosen_vocoder
from model_worker.vocoder.own_vocoder import own_vocoder
from shared.plan.index import Index
from shared.run.directory import RECORDED, REMARK
from shared.run.files import write_file
from shared.speech.mel import SAMPLE_RATE
from shared.speech.wav import wav_bytes
from shared.task.model_side import Shown, Viewer


class _Made(NamedTuple):
    """What was said, as it sounds; and what was recorded, where that is not written yet."""

    spoken: list[Spoken]
    waves: list[np.ndarray]
    recorded: list[np.ndarray]
    rows: dict[str, np.ndarray]  # that they were made of


class SpokenSamples(Viewer):
    """Keeps the first rows of the validation set and speaks them when asked."""

    def __init__(self, model: AcousticModel, index: Index, num_samples: int):
        self._num_samples = num_samples
        self._index = index
        self._speak = speaking_function(model)
        self._vocoder: Vocoder | None = None  # chosen when the first sample is made
        self._why = ""
        self._rows: dict[str, np.ndarray] | None = None

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """Take the sentences from the first validation batch that comes by."""
        if self._rows is not None:
            return
        real = np.flatnonzero(batch["weight"].numpy() > 0)[: self._num_samples]
        if len(real):
            names = ("symbols", "symbol_lengths", "reference_mel", "mel", "mel_lengths", "rows")
            self._rows = {name: batch[name].numpy()[real] for name in names}

    def make(self, folder: Path) -> _Made | None:
        if self._rows is None:
            return None
        vocoder = self._vocoder or self._choose(folder)
        spoken = self._spoken(self._rows)
        waves = [vocoder(each.mel) for each in spoken]
        return _Made(spoken, waves, self._recorded_waves(self._rows, folder, vocoder), self._rows)

    def _choose(self, folder: Path) -> Vocoder:
        """The run's own vocoder, where it has a good one: it was trained before."""
        choice = own_vocoder(folder.parent)
        self._vocoder = chosen_vocoder(choice.run, self._index.mel_basis)
        self._why = choice.why
        return self._vocoder

    def _spoken(self, rows: dict[str, np.ndarray]) -> list[Spoken]:
        mel, lengths, durations = self._speak(
            tf.constant(rows["symbols"]),
            tf.constant(rows["symbol_lengths"]),
            tf.constant(rows["reference_mel"]),
            tf.constant(1.0),
            tf.constant(0.0),
        )
        mel, lengths, durations = mel.numpy(), lengths.numpy(), durations.numpy()
        return [
            Spoken(mel[i, : lengths[i]], durations[i, : rows["symbol_lengths"][i]])
            for i in range(len(lengths))
        ]

    def _recorded_waves(
        self, rows: dict[str, np.ndarray], folder: Path, vocoder: Vocoder
    ) -> list[np.ndarray]:
        """What the sentences sound like as recorded; nothing where that is written already."""
        last = len(rows["mel"]) - 1
        if (folder / RECORDED / f"{last}.wav").exists():
            return []
        recordings = zip(rows["mel"], rows["mel_lengths"], strict=True)
        return [vocoder(mel[:num_frames]) for mel, num_frames in recordings]

    def write(self, made: _Made, folder: Path, step_folder: Path) -> list[Shown]:
        from model_worker.speech.sample_picture import draw  # matplotlib; not at the start

        for i, samples in enumerate(made.recorded):
            (folder / RECORDED).mkdir(parents=True, exist_ok=True)
            write_file(folder / RECORDED / f"{i}.wav", wav_bytes(samples, SAMPLE_RATE))
        if self._why:
            write_file(step_folder / REMARK, self._why.encode())
        shown = []
        for i, (each, samples) in enumerate(zip(made.spoken, made.waves, strict=True)):
            true_mel = made.rows["mel"][i, : made.rows["mel_lengths"][i]]
            png, pixels = draw(self._title(made.rows, i), each.alignment, each.mel, true_mel)
            write_file(step_folder / f"{i}.wav", wav_bytes(samples, SAMPLE_RATE))
            write_file(step_folder / f"{i}.png", png)
            shown.append(Shown(f"speech/{i}", sound=samples, sample_rate=SAMPLE_RATE))
            shown.append(Shown(f"alignment_and_mel/{i}", picture=pixels))
        return shown

    def _title(self, rows: dict[str, np.ndarray], i: int) -> str:
        symbols = rows["symbols"][i, : rows["symbol_lengths"][i]]
        text = "".join(self._index.symbol_table[symbol] for symbol in symbols[1:-1])
        return f"{self._index.ids[int(rows['rows'][i])]}: {text}"
