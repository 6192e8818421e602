"""Held-out recordings by copy synthesis, at each validation: samples/step-000500/0.wav and 0.png.

The recording's own mel is spoken: what the vocoder alone costs. Beside it samples/recorded/0.wav, the
recording. Nothing here touches any random state.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.vocoder.generator import Generator
from model_worker.vocoder.speaking import TrainedVocoder
from shared.config.settings import Config
from shared.plan.index import Index, root_folders
from shared.run.directory import RECORDED
from shared.run.files import write_file
from shared.speech.mel import HOP, SAMPLE_RATE, log_mel, magnitudes
from shared.speech.recording import levelled, peak_of, resampled
from shared.speech.wav import wav_bytes
from shared.task.model_side import Shown, Viewer

_DARKEST = 10.0  # natural log below the loudest bin: 87 dB


class _Copied(NamedTuple):
    """A recording, and what was made of its mel; float32 (samples,) both."""

    title: str
    true: np.ndarray
    made: np.ndarray


class CopiedSamples(Viewer):
    """Keeps the first rows of the validation set, and speaks their mels when asked."""

    def __init__(self, model: Generator, index: Index, config: Config):
        self._index, self._config = index, config
        self._vocoder = TrainedVocoder(model)
        self._rows: list[int] = []
        self._recordings: list[tuple[str, np.ndarray]] | None = None

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        if not self._rows:
            rows = batch["rows"].numpy()
            self._rows = rows[rows >= 0][: self._config.run.samples].tolist()

    def make(self, folder: Path) -> list[_Copied] | None:
        if self._recordings is None:
            self._recordings = [(self._index.ids[row], self._read(row)) for row in self._rows]
        basis = self._index.mel_basis
        return [
            _Copied(title, true, self._vocoder(log_mel(true, basis)))
            for title, true in self._recordings
        ] or None

    def _read(self, row: int) -> np.ndarray:
        """A recording as the batches have it, float32 (frames * 256,) at 22,050 Hz."""
        import soundfile

        index = self._index
        roots = root_folders(self._config.data.train_data or "", self._config.data.val_data)
        first, count = int(index.start[row]), int(index.num_samples[row])
        with soundfile.SoundFile(roots[index.root[row]] / index.paths[row]) as file:
            audio = file.read(first + count, "float32", always_2d=True)[first:].mean(axis=1)
            rate = file.samplerate
        if rate != SAMPLE_RATE:
            audio = resampled(audio, rate)
        if self._config.task.normalise_loudness:
            audio = levelled(audio, peak_of(audio))
        return audio[: len(audio) // HOP * HOP]

    def write(self, made: list[_Copied], folder: Path, step_folder: Path) -> list[Shown]:
        from shared.console.sample_panels import Panel, draw_panels  # matplotlib; not at the start

        shown = []
        for i, (title, true, copied) in enumerate(made):
            if not (folder / RECORDED / f"{i}.wav").exists():
                (folder / RECORDED).mkdir(parents=True, exist_ok=True)
                write_file(folder / RECORDED / f"{i}.wav", wav_bytes(true, SAMPLE_RATE))
            ours, theirs = np.log(magnitudes(copied)), np.log(magnitudes(true))
            limits = float(theirs.max()) - _DARKEST, float(theirs.max())
            panels = [
                Panel("made, kHz", ours, limits, SAMPLE_RATE / 2000),
                Panel("recorded, kHz", theirs, limits, SAMPLE_RATE / 2000),
            ]
            png, pixels = draw_panels(title, panels, HOP / SAMPLE_RATE)
            write_file(step_folder / f"{i}.wav", wav_bytes(copied, SAMPLE_RATE))
            write_file(step_folder / f"{i}.png", png)
            shown.append(Shown(f"copied/{i}", sound=copied, sample_rate=SAMPLE_RATE))
            shown.append(Shown(f"spectrum/{i}", picture=pixels))
        return shown
