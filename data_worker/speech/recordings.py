"""Recordings with their texts, as tasks train on them: found, looked at, read.

Which features they get, and what of them a batch holds, is the task's that is built on this.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_worker.speech.audio_check.check_row import CheckSettings, check_row
from data_worker.speech.audio_check.probe import ProbeSettings, Unusable, probe
from data_worker.speech.formats import recognise as formats
from data_worker.speech.formats.audio_names import AudioNames, BadName
from data_worker.speech.formats.rows import Row
from data_worker.speech.index_content import speech_corpus
from shared.config.installation import PROGRAM
from shared.config.settings import Config
from shared.plan.index import Index
from shared.speech.batch import GROUP_COLUMN
from shared.speech.text.frontend import make_frontend
from shared.speech.text.reading.reader import VERSION
from shared.task import (
    Corpus,
    DataSide,
    Example,
    Indexed,
    LeaveOut,
    LeftOut,
    Looked,
    Source,
    Survey,
)

if TYPE_CHECKING:
    from data_worker.speech.clip_features import ClipFeatures

DECODE_UP_TO_HOURS = 50.0
_HEADERS_SAMPLED = 100
_UNSPOKEN_SHOWN = 20


class Recordings(DataSide):
    """Recordings of one speaker or many."""

    group_column = GROUP_COLUMN
    same_index = f"recordings, version 1, reading {VERSION}"
    read_columns = ("start", "num_samples", "sample_rate")
    noun = "utterances"
    patience_s = 0.0  # nothing here takes seconds: a reader that stands still is stuck for good

    def __init__(self, config: Config, listen: bool = False):
        """With `listen`, files that are decoded are also measured (`ProbedFile.heard`)."""
        super().__init__(config)
        self._settings = config.task
        self._listen = listen
        self._roots: tuple[str, ...] = ()
        self._verify = self._settings.verify
        self._format = self._settings.metadata_format
        self._clips: ClipFeatures | None = None

    def source(self, path: str, root: int, with_held_out: bool) -> Source:
        found = formats.look(
            path, self._settings.metadata_format, root, with_held_out=with_held_out
        )

        def read() -> list[Example | LeftOut]:
            parsed = formats.parse(found)
            self._format = parsed.format
            return [*(row.as_example() for row in parsed.rows), *parsed.left_out]

        # An unknown language ends it before anything is looked at.
        make_frontend(self._settings.text_frontend, self._settings.language)
        return Source(found.folder, formats.digest(found), read)

    def survey(self, examples: Sequence[Example], roots: Sequence[str]) -> Survey:
        """Decide whether files are decoded: auto estimates the hours of audio from a few headers."""
        self._roots = tuple(roots)
        if self._settings.verify == "auto":
            hours = self._estimated_hours(examples, roots)
            self._verify = "decode" if hours <= DECODE_UP_TO_HOURS else "headers"
        decodes = self._verify == "decode"
        words = "decoding every file once" if decodes else "reading every file's header"
        return Survey(self._verify, words, self._format)

    def _estimated_hours(self, examples: Sequence[Example], roots: Sequence[str]) -> float:
        most = len(examples) * self._settings.max_seconds / 3600
        if most <= DECODE_UP_TO_HOURS:
            return most
        settings = ProbeSettings(False, 0.0, 36_000.0, False, 0.0)
        seconds = []
        chosen = random.Random(self.config.training.seed)
        for example in chosen.sample(list(examples), min(_HEADERS_SAMPLED, len(examples))):
            try:
                found = probe(roots[example.root], example.path, settings)
            except Unusable:
                continue
            seconds.append(found.num_samples / found.sample_rate)
        return len(examples) * (sum(seconds) / len(seconds) if seconds else 0.0) / 3600

    def look(self, example: Example, path: Path) -> Looked:
        """`found` is a `Usable`; the lengths are for the task to say."""
        settings = self._settings
        usable = check_row(
            Row.of_example(example),
            CheckSettings(
                self._roots,
                ProbeSettings(
                    self._verify == "decode",
                    settings.min_seconds,
                    settings.max_seconds,
                    settings.trim_silence,
                    settings.trim_db,
                    self._listen,
                ),
                settings.text_frontend,
                settings.language,
            ),
        )
        if isinstance(usable, LeftOut):
            raise LeaveOut(usable.reason, usable.kind)
        return Looked(found=usable)

    def corpus(
        self,
        examples: Sequence[Example],
        looked: Sequence[Looked],
        is_training: np.ndarray,
        roots: Sequence[str],
        pool: Any,
    ) -> Corpus:
        usable = [each.found for each in looked]
        return speech_corpus(examples, usable, is_training, roots, pool, self.config)

    def has_turned_up(self, left_out: LeftOut, root: str) -> bool:
        try:
            AudioNames(root).find(left_out.id)
        except BadName:
            return False
        return True

    def nothing_found(self, folder: str) -> str:
        return f"{folder}: the metadata has no rows. Add one line per utterance, such as id|text."

    def where_to_see(self, folder: str) -> str:
        return f"Run '{PROGRAM} check-data --train-data {folder}' to see every one."

    def words(self, index: Index) -> list[str]:
        hours = float((index.num_samples / index.sample_rate).sum()) / 3600
        num_speakers = len(index.speakers)
        found = [f"{hours:.2f} hours, {num_speakers} speaker{'s' * (num_speakers != 1)}"]
        unspoken = index.preparation["unspoken"]
        if unspoken:
            more = len(unspoken) - _UNSPOKEN_SHOWN
            found.append(
                f"Characters without a sound are passed over: "
                f"{'  '.join(unspoken[:_UNSPOKEN_SHOWN])}" + (f"  and {more} more" * (more > 0))
            )
        if index.preparation["verify"] == "headers" and self._settings.trim_silence:
            found.append(
                "Only headers were looked at, so silence at the ends is not cut. --verify decode "
                "finds it"
            )
        return found

    def open(self, index: Index) -> None:
        from data_worker.speech.clip_features import ClipFeatures
        from shared.speech.index_check import check_speech

        check_speech(index)
        self._clips = ClipFeatures(index.mel_basis)

    def recipe(self) -> dict[str, str]:
        return {
            "normalise_loudness": str(self._settings.normalise_loudness),
            **{name: version(name) for name in ("tensorflow", "numpy", "soxr", "soundfile")},
        }

    def read(self, example: Indexed) -> np.ndarray:
        """Its audio at 22,050 Hz, float32 (samples,)."""
        from shared.speech.utterance import load_utterance

        index, row = example.index, example.row
        return load_utterance(
            example.path,
            int(index.start[row]),
            int(index.num_samples[row]),
            int(index.sample_rate[row]),
            self._settings.normalise_loudness,
        )

    @property
    def clips(self) -> ClipFeatures:
        """What makes their features, once a data process is open."""
        assert self._clips is not None
        return self._clips

    @property
    def num_graphs(self) -> int:
        return self._clips.num_graphs if self._clips is not None else 0
