"""Samples to the bytes of a sound format, piece by piece, as a stream wants them."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any, Protocol

import numpy as np

_PCM_RATE = 24_000  # of bare samples, which can't say their rate: the convention's
_OPUS_RATE = 24_000  # Opus knows no 22,050 Hz
_MP3_LEVEL = 0.6  # 64 kbit/s
_BLOCK = 4096  # samples; libsndfile's Vorbis can't take a minute in one call
_ENDLESS = 0xFFFFFFFF  # the length of a wav that nobody knows yet


@dataclasses.dataclass(frozen=True)
class SoundFormat:
    """rate: of what is sent, where that is not the voice's. container: libsndfile's name of it."""

    media_type: str
    rate: int | None = None
    container: str = ""
    subtype: str = ""


FORMATS = {
    "mp3": SoundFormat("audio/mpeg", None, "MP3", "MPEG_LAYER_III"),
    "opus": SoundFormat("audio/ogg; codecs=opus", _OPUS_RATE, "OGG", "OPUS"),
    "ogg": SoundFormat("audio/ogg; codecs=vorbis", None, "OGG", "VORBIS"),
    "flac": SoundFormat("audio/flac", None, "FLAC", "PCM_16"),
    "wav": SoundFormat("audio/wav"),
    "pcm": SoundFormat(f"audio/pcm; rate={_PCM_RATE}; channels=1", _PCM_RATE),
}


class Encoder(Protocol):
    """Makes bytes of samples; what it gave, end to end, is the file."""

    def add(self, samples: np.ndarray, is_last: bool) -> bytes:
        """float32 (samples,) in [-1, 1]; call it with `is_last` once, at the end."""


def encoder_of(name: str, rate: int) -> Encoder:
    """The encoder of a format for a voice of that rate."""
    form = FORMATS[name]
    inner: Encoder
    if form.container:
        inner = _Library(form, form.rate or rate)
    else:
        inner = _Plain(form.rate or rate, has_header=name == "wav")
    return _Resampled(inner, rate, form.rate) if form.rate and form.rate != rate else inner


class _Plain:
    """16-bit samples, with or without the header of a wav whose length is not known yet."""

    def __init__(self, rate: int, has_header: bool):
        self._rate, self._has_header = rate, has_header

    def add(self, samples: np.ndarray, is_last: bool) -> bytes:
        whole = np.rint(np.clip(samples, -1.0, 1.0) * 32_767).astype("<i2").tobytes()
        if not self._has_header:
            return whole
        self._has_header = False
        return _wav_header(self._rate, len(whole) if is_last else None) + whole


def _wav_header(rate: int, num_bytes: int | None) -> bytes:
    data = _ENDLESS if num_bytes is None else num_bytes
    riff = _ENDLESS if num_bytes is None else num_bytes + 36
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + form + struct.pack("<4sI", b"data", data)


class _Resampled:
    """Another encoder, whose samples have another rate."""

    def __init__(self, inner: Encoder, rate: int, new_rate: int):
        import soxr

        self._inner = inner
        self._resampler = soxr.ResampleStream(rate, new_rate, 1, dtype="float32")

    def add(self, samples: np.ndarray, is_last: bool) -> bytes:
        found = self._resampler.resample_chunk(samples.astype(np.float32), last=is_last)
        return self._inner.add(found, is_last)


class _Library:
    """A format that libsndfile writes."""

    def __init__(self, form: SoundFormat, rate: int):
        import soundfile

        self._sink = _Sink()
        # Who plays an mp3 of unknown length counts on frames that are all of one size.
        more = {"bitrate_mode": "CONSTANT", "compression_level": _MP3_LEVEL}
        self._file = soundfile.SoundFile(
            self._sink, "w", rate, 1, form.subtype, format=form.container,
            **(more if form.container == "MP3" else {}),
        )  # fmt: skip

    def add(self, samples: np.ndarray, is_last: bool) -> bytes:
        for start in range(0, len(samples), _BLOCK):
            self._file.write(samples[start : start + _BLOCK])
        if is_last:
            self._file.close()
        else:
            self._file.flush()
        return self._sink.taken()


class _Sink:
    """A file that is written from front to back, and read by whoever sends it on.

    At the end libsndfile goes back to put lengths into the header; of what is sent already that is
    no longer possible, and players do without.
    """

    def __init__(self) -> None:
        self._held, self._first, self._place = bytearray(), 0, 0

    def write(self, data: Any) -> int:
        given = bytes(data)
        start = self._place - self._first
        self._place += len(given)
        if start >= 0:
            self._held[start : start + len(given)] = given
        elif -start < len(given):
            rest = given[-start:]
            self._held[: len(rest)] = rest
        return len(given)

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._place, self._first + len(self._held))[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, count: int = -1) -> bytes:
        return b""

    def flush(self) -> None:
        """Nothing is kept back."""

    def taken(self) -> bytes:
        """What was written and not yet taken."""
        found = bytes(self._held)
        self._first += len(found)
        self._held.clear()
        return found
