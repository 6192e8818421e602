"""A data set of speech, every row of it looked at, as check-data tells of it."""

from __future__ import annotations

from typing import NamedTuple

from data_worker.preparation.examine import DataSet, Examined, Progress, examine, make_pool
from data_worker.speech.audio_check.check_row import Usable
from data_worker.speech.formats.rows import Row
from data_worker.speech.task import SpeechData
from shared.config.settings import Config
from shared.task import LeftOut


class ExaminedSpeech(NamedTuple):
    """The usable rows with what was found in each, the others, and the engine's own view."""

    rows: list[Row]
    usable: list[Usable]
    left_out: list[LeftOut]
    examined: Examined
    side: SpeechData


def examine_speech(config: Config, progress: Progress = lambda *_: None) -> ExaminedSpeech:
    """Look at every row as a run would, and measure what is decoded.

    Raises:
        DataError: the metadata can't be read at all.
    """
    side = SpeechData(config, listen=True)
    data = DataSet.of(config, side)
    with make_pool() as pool:
        examined = examine(data, pool, progress)
    return ExaminedSpeech(
        [Row.of_example(example) for example in examined.examples],
        [each.looked.found for each in examined.seen],
        examined.left_out,
        examined,
        side,
    )
