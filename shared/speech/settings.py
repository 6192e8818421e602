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
        "layout of the metadata (auto = found by looking)",
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
        "what the model reads",
        choices=("phonemes", "characters"),
        decides="index",
    )
    language: str = option(
        "str", "en-us", "language of the texts, as espeak-ng names it", decides="index"
    )
    verify: str = option(
        "str",
        "auto",
        "how files are looked at before training (auto = decode up to 50 hours)",
        choices=("auto", "decode", "headers"),
        decides="look",
    )
    min_seconds: float = option(
        "float", 0.3, "shorter clips are left out", minimum=0, decides="index"
    )
    max_seconds: float = option(
        "float", 15.0, "longer clips are left out", minimum=0.1, maximum=600, decides="index"
    )
    trim_silence: bool = option(
        "bool", True, "cut silence from both ends of a clip", decides="index"
    )
    trim_db: float = option(
        "float",
        50.0,
        "what is this much below the clip's peak counts as silence",
        minimum=10,
        maximum=120,
        decides="index",
    )
    normalise_loudness: bool = option(
        "bool", True, "bring every clip's peak to 0.95", decides="index"
    )
    model_size: str = option(
        "str",
        "small",
        "size of the model",
        choices=("tiny", "small", "normal", "big"),
        decides="model",
    )

    vocoder_share: float = option(
        "float",
        0.0,
        "share of --max-minutes in which a vocoder is trained first, to speak with (0 = none)",
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
