"""Look at one audio file and trust nothing about it.

The order matters: what the path is, before anything is opened; what the header claims, before
anything is decoded; only then the samples.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data_worker.speech.audio_check import wav_chunks
from data_worker.speech.audio_check.heard import Heard, listen
from data_worker.speech.formats.rows import BAD, FILTERED
from shared.speech.recording import as_float, read_stored
from shared.speech.trimming import trim

if TYPE_CHECKING:
    import soundfile

MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 384_000
MAX_CHANNELS = 16
SILENCE_PEAK = 1e-4  # -80 dB: below the last bit that anyone hears
_BLOCK_FRAMES = 1 << 18
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class ProbeSettings(NamedTuple):
    """What of the configuration decides how a file is looked at."""

    decode: bool
    min_seconds: float
    max_seconds: float
    trim_silence: bool
    trim_db: float
    listen: bool = False  # also measure the samples; needs decode


class ProbedFile(NamedTuple):
    """What a usable file holds; `start` and `num_samples` without the silence at both ends."""

    sample_rate: int
    num_channels: int
    start: int
    num_samples: int
    file_size: int
    file_mtime_ns: int
    heard: Heard | None = None


class Unusable(Exception):
    """A file that can't or shouldn't be trained on."""

    def __init__(self, kind: str, reason: str):
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def probe(root: str, relative: str, settings: ProbeSettings) -> ProbedFile:
    """Look at the file `relative` of the data folder `root`.

    Raises:
        Unusable: says whether the file is bad or merely not wanted, and why.
    """
    import soundfile

    path = _inside(root, relative)
    try:
        # O_NONBLOCK: should a FIFO have taken the file's place, opening it must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unusable(BAD, f"can't be opened ({error.strerror})") from None
    with open(descriptor, "rb") as file:
        try:
            status = os.fstat(descriptor)
            _check_kind(status)
            damage = wav_chunks.find_damage(file, status.st_size)
            if damage:
                raise Unusable(BAD, damage)
            os.lseek(descriptor, 0, os.SEEK_SET)
            with soundfile.SoundFile(descriptor, closefd=False) as audio:
                start, num_samples, heard = _look_inside(audio, settings)
                return ProbedFile(
                    audio.samplerate,
                    audio.channels,
                    start,
                    num_samples,
                    status.st_size,
                    status.st_mtime_ns,
                    heard,
                )
        except soundfile.LibsndfileError as error:
            raise Unusable(BAD, f"is not audio that can be read ({_plain(error)})") from None
        except OSError as error:
            raise Unusable(BAD, f"can't be read ({error.strerror})") from None
        except (MemoryError, ValueError, RuntimeError, OverflowError) as error:
            raise Unusable(BAD, f"is not audio that can be read ({error})") from None


def _inside(root: str, relative: str) -> str:
    """The absolute path of a regular file inside `root`, symbolic links followed and judged."""
    if "\0" in relative:
        raise Unusable(BAD, "its name holds a NUL character")
    path = os.path.join(root, relative)
    try:
        home = os.path.realpath(root)
        real = os.path.realpath(path)
        if os.path.commonpath([home, real]) != home:
            raise Unusable(
                BAD,
                f"{relative} leads out of the data folder"
                + (" by a symbolic link" if ".." not in relative else ""),
            )
        status = os.stat(path)
    except FileNotFoundError:
        raise Unusable(BAD, f"there is no file {relative}") from None
    except OSError as error:
        raise Unusable(BAD, f"{relative[:200]} can't be looked at ({error.strerror})") from None
    _check_kind(status)
    return path


def _check_kind(status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise Unusable(BAD, f"is {_KINDS.get(kind, 'not a file')}, not an audio file")
    if status.st_size == 0:
        raise Unusable(BAD, "is empty (0 bytes)")
    # Root may read what nobody may; the process that trains may be someone else.
    if not status.st_mode & 0o444:
        raise Unusable(
            BAD,
            f"its permissions let nobody read it (mode {stat.S_IMODE(status.st_mode):03o}); use chmod",
        )


def _look_inside(
    audio: soundfile.SoundFile, settings: ProbeSettings
) -> tuple[int, int, Heard | None]:
    """Check header and samples; returns start and length of the stretch to train on."""
    rate, channels, claimed = audio.samplerate, audio.channels, audio.frames
    if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
        raise Unusable(
            BAD, f"its sample rate is {rate:,} Hz; expected {MIN_RATE_HZ:,} to {MAX_RATE_HZ:,}"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise Unusable(BAD, f"it has {channels} channels; expected 1 to {MAX_CHANNELS}")
    if claimed <= 0:
        raise Unusable(BAD, "it holds no samples")
    # Silence at the ends may still be cut, but nobody decodes ten hours to find out.
    longest = settings.max_seconds
    if settings.decode and settings.trim_silence:
        longest = 2 * settings.max_seconds + 10
    if claimed > longest * rate or claimed < settings.min_seconds * rate:
        _refuse_length(claimed / rate, settings)
    if not settings.decode:
        _check_length(claimed / rate, settings)
        return 0, claimed, None
    mono = _decode(audio, claimed)
    start, stop = 0, len(mono)
    if settings.trim_silence:
        start, stop = trim(mono, rate, settings.trim_db)
    _check_length((stop - start) / rate, settings)
    heard = listen(mono, start, stop, rate) if settings.listen else None
    return start, stop - start, heard


def _decode(audio: soundfile.SoundFile, claimed: int) -> np.ndarray:
    """All samples, mixed to one channel: float32 (samples,)."""
    pieces, count = [], 0
    while count < claimed:
        block = as_float(read_stored(audio, min(_BLOCK_FRAMES, claimed - count)))
        if not len(block):
            break
        if not np.isfinite(block).all():
            raise Unusable(BAD, "it holds samples that are not numbers (NaN or infinite)")
        pieces.append(block[:, 0] if block.shape[1] == 1 else block.mean(axis=1))
        count += len(block)
    # An MP3 carries no exact count, so a frame or two may be missing from it.
    spare = claimed // 100 + 4_608 if "MPEG" in audio.subtype else 0
    if count + spare < claimed:
        raise Unusable(BAD, f"it ends after {count:,} of {claimed:,} samples (cut short)")
    mono = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    peak = max(float(mono.max()), -float(mono.min()))
    if peak < SILENCE_PEAK or float(mono.max()) - float(mono.min()) < SILENCE_PEAK:
        raise Unusable(BAD, "it holds only silence")
    return mono


def _check_length(seconds: float, settings: ProbeSettings) -> None:
    if not settings.min_seconds <= seconds <= settings.max_seconds:
        _refuse_length(seconds, settings)


def _refuse_length(seconds: float, settings: ProbeSettings) -> None:
    if seconds < settings.min_seconds:
        raise Unusable(
            FILTERED, f"too short: {seconds:.2f} s, min_seconds is {settings.min_seconds:g}"
        )
    raise Unusable(FILTERED, f"too long: {seconds:,.2f} s, max_seconds is {settings.max_seconds:g}")


def _plain(error: Exception) -> str:
    """libsndfile's message without the file object's address and the full stop."""
    return str(error).split(": ", 1)[-1].strip().rstrip(".")
