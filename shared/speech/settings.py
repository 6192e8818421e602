"""The options of speech: how recordings and texts become examples, and the size of the voice."""

from __future__ import annotations

import dataclasses

from shared.config.option import check_section, option
from shared.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class SpeechConfig:
    """What of the speech is used, and how it is looked at and read."""

    metadata_format: str = option(
        "str",
        "auto",
        "format of the metadata: ljspeech, path-text, path-speaker-text, coqui, vctk, common-voice "
        "or auto, which recognises it",
        value="FORMAT",
        topic="data",
        choices=(
            "auto",
            "ljspeech",
            "path-text",
            "path-speaker-text",
            "coqui",
            "vctk",
            "common-voice",
        ),
        decides="index",
    )
    text_frontend: str = option(
        "str",
        "phonemes",
        "what the model reads: the phonemes of a text, or its characters",
        topic="data",
        choices=("phonemes", "characters"),
        decides="index",
    )
    language: str = option(
        "str",
        "en-us",
        "language of the texts, by espeak-ng's name for it: de, fr-fr, en-gb, …",
        topic="data",
        first=5,
        value="CODE",
        decides="index",
    )
    verify: str = option(
        "str",
        "auto",
        "how recordings are checked before training: decoded, or only their headers read (auto = "
        "decoded, up to 50 hours of them)",
        topic="data",
        choices=("auto", "decode", "headers"),
        decides="look",
    )
    min_seconds: float = option(
        "float",
        0.3,
        "leave out clips shorter than this",
        topic="data",
        value="S",
        minimum=0,
        decides="index",
    )
    max_seconds: float = option(
        "float",
        15.0,
        "leave out clips longer than this",
        topic="data",
        value="S",
        minimum=0.1,
        maximum=600,
        decides="index",
    )
    trim_silence: bool = option(
        "bool", True, "cut silence off both ends of each clip", topic="data", decides="index"
    )
    trim_db: float = option(
        "float",
        50.0,
        "how far below a clip's peak silence begins, in dB",
        topic="data",
        value="DB",
        minimum=10,
        maximum=120,
        decides="index",
    )
    normalise_loudness: bool = option(
        "bool",
        True,
        "bring the peak of every clip to the same level",
        topic="data",
        decides="index",
    )
    model_size: str = option(
        "str",
        "small",
        "size of the model",
        topic="model",
        first=4,
        choices=("tiny", "small", "normal", "big"),
        decides="model",
    )

    vocoder_share: float = option(
        "float",
        0.0,
        "share of --max-minutes in which a vocoder is trained first, for a better sound (0 = none)",
        topic="model",
        first=9,
        value="SHARE",
        minimum=0,
        maximum=0.9,
    )

    def __post_init__(self) -> None:
        check_section(self)
        if self.min_seconds >= self.max_seconds:
            raise ConfigError(
                f"min_seconds ({self.min_seconds:g}) must be below max_seconds "
                f"({self.max_seconds:g}): change --min-seconds or --max-seconds."
            )

    def check(self) -> None:
        """Before there is a run directory, which another language would not fit.

        Raises:
            DataError: espeak-ng does not know the language.
        """
        from shared.speech.text.frontend import make_frontend

        make_frontend(self.text_frontend, self.language)
