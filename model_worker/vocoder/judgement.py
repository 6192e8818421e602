"""Whether a vocoder is better than Griffin-Lim, as the spectra of held-out recordings say.

Both copy the recordings from their mels. What is compared is the distance of the logarithms of spectra
that the vocoder is judged by in training. Of two that it calls different, the scorers of speech that were
asked called the same one better (docs/vocoder.md); the distance of mels is none, for Griffin-Lim, which
knows nothing but the mel, always wins it.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from shared.errors import InputError
from shared.run.files import write_file

FILE = "judged.json"  # among the samples of a run


@dataclasses.dataclass(frozen=True)
class Judgement:
    """Mean distances from the recordings, by copy synthesis."""

    num_clips: int
    vocoder: float
    griffin_lim: float

    @property
    def is_better(self) -> bool:
        """Whether the vocoder is nearer to the recordings."""
        return self.vocoder < self.griffin_lim

    @property
    def in_words(self) -> str:
        verdict = "nearer" if self.is_better else "no nearer yet"
        clips = "a held-out recording" if self.num_clips == 1 else (
            f"{self.num_clips} held-out recordings")  # fmt: skip
        return (
            f"It is {verdict} to {clips} than Griffin-Lim: the error of the spectrum is "
            f"{self.vocoder:.3f}, that of Griffin-Lim {self.griffin_lim:.3f}."
        )

    def write(self, samples: Path) -> None:
        """Keep it in a run's folder of samples."""
        write_file(samples / FILE, json.dumps(dataclasses.asdict(self)).encode() + b"\n")


def read_judgement(samples: Path) -> Judgement | None:
    """What the last validation of a run found; None where there was none.

    Raises:
        InputError: the file is damaged.
    """
    path = samples / FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        return Judgement(
            int(found["num_clips"]), float(found["vocoder"]), float(found["griffin_lim"])
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: is damaged. Remove it; the next validation writes it anew."
        ) from None
