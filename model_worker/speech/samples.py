"""The same held-out sentences, spoken at each validation: samples/step-000500/0.wav and 0.png.

Beside them samples/recorded/0.wav: the recording's own mel through the same vocoder, which is as
good as any voice can sound here.

Speaking is done at once, for it needs the averaged weights of this step; files and pictures are
made by a thread of their own while training goes on. Nothing here touches any random state, and
nothing that goes wrong here ends the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import tensorflow as tf

from model_worker.speech.network.acoustic_model import AcousticModel
from model_worker.speech.speaking.loaded_voice import Spoken
from model_worker.speech.speaking.speaking_graph import speaking_function
from model_worker.speech.speaking.vocoder import GriffinLim
from model_worker.training.step import TrainStep
from model_worker.watching.summaries import Summaries
from shared.plan.index import Index
from shared.run.directory import RECORDED
from shared.run.files import wav_bytes, write_file
from shared.speech.mel import SAMPLE_RATE

log = logging.getLogger(__name__)


class Samples:
    """Keeps the first rows of the validation set and speaks them when asked."""

    def __init__(
        self,
        model: AcousticModel,
        train_step: TrainStep,
        index: Index,
        folder: Path,
        summaries: Summaries,
        num_samples: int = 2,
        say: Callable[[str], None] = lambda text: None,
    ):
        """`say` is told of the first samples that can't be made; the log has each."""
        self._say = say
        self._has_failed = False
        self._num_samples = num_samples
        self._train_step = train_step
        self._index = index
        self._folder = folder
        self._summaries = summaries
        self._speak = speaking_function(model)
        self._vocoder = GriffinLim(index.mel_basis)
        self._rows: dict[str, np.ndarray] | None = None
        self._writer = ThreadPoolExecutor(1, "samples")
        self._last_written: Future | None = None

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """Take the sentences from the first validation batch that comes by."""
        if self._rows is not None:
            return
        real = np.flatnonzero(batch["weight"].numpy() > 0)[: self._num_samples]
        if len(real):
            names = ("symbols", "symbol_lengths", "reference_mel", "mel", "mel_lengths", "rows")
            self._rows = {name: batch[name].numpy()[real] for name in names}

    def speak(self, step: int) -> None:
        """Speak the sentences as the averaged weights do now."""
        if self._rows is None:
            return
        started_s = time.perf_counter()
        try:
            spoken = self._spoken(self._rows)
            waves = [self._vocoder(each.mel) for each in spoken]
            recorded = self._recorded_waves()
        except Exception:
            self._note_failure(step, "spoken")
            return
        log.info("spoke %d samples in %.2f s", len(waves), time.perf_counter() - started_s)
        self._last_written = self._writer.submit(self._write, step, spoken, waves, recorded)

    def close(self, patience_s: float | None = None) -> None:
        """Wait until everything is written, or so many seconds for each kind of it."""
        if self._last_written is not None:
            wait([self._last_written], patience_s)
        self._writer.shutdown(wait=False)
        self._summaries.close(patience_s)

    def _spoken(self, rows: dict[str, np.ndarray]) -> list[Spoken]:
        own = self._train_step.swap_in_averages()
        try:
            mel, lengths, durations = self._speak(
                tf.constant(rows["symbols"]),
                tf.constant(rows["symbol_lengths"]),
                tf.constant(rows["reference_mel"]),
                tf.constant(1.0),
                tf.constant(0.0),
            )
        finally:
            self._train_step.restore_weights(own)
        mel, lengths, durations = mel.numpy(), lengths.numpy(), durations.numpy()
        return [
            Spoken(mel[i, : lengths[i]], durations[i, : rows["symbol_lengths"][i]])
            for i in range(len(lengths))
        ]

    def _recorded_waves(self) -> list[np.ndarray]:
        """What the sentences sound like as recorded; nothing where that is written already."""
        last = len(self._rows["mel"]) - 1
        if (self._folder / RECORDED / f"{last}.wav").exists():
            return []
        recordings = zip(self._rows["mel"], self._rows["mel_lengths"], strict=True)
        return [self._vocoder(mel[:num_frames]) for mel, num_frames in recordings]

    def _write(
        self,
        step: int,
        spoken: list[Spoken],
        waves: list[np.ndarray],
        recorded: list[np.ndarray],
    ) -> None:
        try:
            from model_worker.speech.sample_picture import (
                draw,  # matplotlib; not at the worker's start
            )

            for i, samples in enumerate(recorded):
                (self._folder / RECORDED).mkdir(parents=True, exist_ok=True)
                write_file(self._folder / RECORDED / f"{i}.wav", wav_bytes(samples, SAMPLE_RATE))
            folder = self._folder / f"step-{step:06d}"
            folder.mkdir(parents=True, exist_ok=True)
            for i, (each, samples) in enumerate(zip(spoken, waves, strict=True)):
                true_mel = self._rows["mel"][i, : self._rows["mel_lengths"][i]]
                png, pixels = draw(self._title(i), each.alignment, each.mel, true_mel)
                write_file(folder / f"{i}.wav", wav_bytes(samples, SAMPLE_RATE))
                write_file(folder / f"{i}.png", png)
                self._summaries.sample(step, str(i), samples, pixels)
        except Exception:
            self._note_failure(step, "written")

    def _note_failure(self, step: int, what: str) -> None:
        log.exception("the samples of step %d could not be %s; the run goes on", step, what)
        if not self._has_failed:
            self._has_failed = True
            self._say(
                f"⚠️  The samples of step {step} could not be {what}; the run goes on (see "
                "model_worker.log)"
            )

    def _title(self, i: int) -> str:
        symbols = self._rows["symbols"][i, : self._rows["symbol_lengths"][i]]
        text = "".join(self._index.symbol_table[symbol] for symbol in symbols[1:-1])
        return f"{self._index.ids[int(self._rows['rows'][i])]}: {text}"
