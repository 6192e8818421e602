"""Held-out recordings by copy synthesis, at each validation: samples/step-000500/0.wav and 0.png.

The recording's own mel is spoken: what the vocoder alone costs. Beside it samples/recorded/0.wav, the
recording, and samples/judged.json: whether it is better than Griffin-Lim. Nothing here touches any random
state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.vocoder.generator import Generator
from model_worker.vocoder.griffin_lim import GriffinLim
from model_worker.vocoder.held_out import recording_of
from model_worker.vocoder.judgement import Judgement
from model_worker.vocoder.losses import RESOLUTIONS, distances
from model_worker.vocoder.speaking import TrainedVocoder
from shared.config.settings import Config
from shared.errors import ReadError
from shared.plan.index import Index
from shared.run.directory import RECORDED, REMARK
from shared.run.files import write_file
from shared.speech.mel import HOP, SAMPLE_RATE, log_mel, magnitudes
from shared.speech.wav import wav_bytes
from shared.task.model_side import Shown, Viewer

log = logging.getLogger(__name__)

_JUDGED = 8  # recordings, where there are as many
_DARKEST = 10.0  # natural log below the loudest bin: 87 dB


class _Copied(NamedTuple):
    """A recording, and what was made of its mel; float32 (samples,) both."""

    title: str
    true: np.ndarray
    made: np.ndarray


class _CopiedAndJudged(NamedTuple):
    """Samples of one validation, and how good they are."""

    copied: list[_Copied]
    judgement: Judgement


class CopiedSamples(Viewer):
    """Keeps the first rows of the validation set, and speaks their mels when asked."""

    def __init__(self, model: Generator, index: Index, config: Config):
        self._index, self._config = index, config
        self._basis = tf.constant(index.mel_basis)
        self._vocoder = TrainedVocoder(model)
        self._rows: list[int] = []
        self._recordings: list[_Copied] = []  # by Griffin-Lim
        self._griffin_lim = 0.0  # its distance from them

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """Rows of the first validation, as many as are judged."""
        missing = max(_JUDGED, self._config.run.samples) - len(self._rows)
        if missing > 0 and not self._recordings:
            rows = batch["rows"].numpy().tolist()
            self._rows += [row for row in rows if row >= 0 and row not in self._rows][:missing]

    def make(self, folder: Path) -> _CopiedAndJudged | None:
        basis = self._index.mel_basis
        if not self._recordings:
            self._recordings = list(self._by_griffin_lim())
            if not self._recordings:
                return None
            others = [self._distance(each.made, each.true) for each in self._recordings]
            self._griffin_lim = float(np.mean(others))
        copied = [
            each._replace(made=self._vocoder(log_mel(each.true, basis)))
            for each in self._recordings
        ]
        ours = float(np.mean([self._distance(each.made, each.true) for each in copied]))
        judgement = Judgement(len(copied), ours, self._griffin_lim)
        return _CopiedAndJudged(copied[: self._config.run.samples], judgement)

    def _by_griffin_lim(self) -> Iterator[_Copied]:
        """The recordings, without those that can't be read any more or are too short to compare."""
        basis = self._index.mel_basis
        griffin_lim = GriffinLim(basis)
        for row in self._rows:
            try:
                true = recording_of(self._index, row, self._config)
            except (OSError, ReadError) as error:
                log.warning("%s is no sample: %s", self._index.ids[row], error)
                continue
            if len(true) >= max(RESOLUTIONS):
                yield _Copied(self._index.ids[row], true, griffin_lim(log_mel(true, basis)))

    def _distance(self, made: np.ndarray, true: np.ndarray) -> float:
        found = distances(tf.constant(made[np.newaxis]), tf.constant(true[np.newaxis]), self._basis)
        return float(found["magnitude"][0])

    def write(self, made: _CopiedAndJudged, folder: Path, step_folder: Path) -> list[Shown]:
        from shared.console.sample_panels import Panel, draw_panels  # matplotlib; not at the start

        made.judgement.write(folder)
        write_file(step_folder / REMARK, made.judgement.in_words.encode())
        shown = []
        for i, (title, true, copied) in enumerate(made.copied):
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
