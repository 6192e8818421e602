"""A voice's ONNX files at work: symbols to samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from shared.errors import InputError
from shared.speech.mel import HOP, MEL_BINS, SILENCE
from shared.speech.text.encoder import EncodedPiece, TextEncoder
from shared.speech.text.lexicon import Lexicon
from shared.speech.text.markup import PITCH_RANGE, SPEED_RANGE

ABOUT, VECTORS = "symbols.json", "voices.npy"
TEXT_TO_MEL, VOCODER = "text-to-mel.onnx", "vocoder.onnx"
_HEARD_SILENCE = 8  # frames of a pause that the vocoder makes; the rest of it is nothing


def is_exported(folder: Path) -> bool:
    """Whether a folder is what `export --format onnx` writes."""
    return all((folder / name).is_file() for name in (ABOUT, VECTORS, TEXT_TO_MEL, VOCODER))


class ServedVoice:
    """Speaks in any of the speakers of an exported voice; may be used by several threads."""

    def __init__(self, folder: Path, lexicon: Lexicon | None = None):
        """`lexicon`: the words that are said otherwise. Raises InputError where the folder is damaged."""
        self._lexicon = lexicon
        try:
            about = json.loads((folder / ABOUT).read_text("utf-8"))
            self._vectors = np.load(folder / VECTORS, allow_pickle=False)
            self.speakers: list[str] = list(about["speakers"])
            self.language = str(about["language"] or "")
            self.sample_rate = int(about["sample_rate"])
            self.step = int(about["step"])
            self._frontend = str(about["frontend"])
            self._table = list(map(str, about["symbol_table"]))
            self._text_to_mel = _session(folder / TEXT_TO_MEL)
            self._vocoder = _session(folder / VOCODER)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder}: is no voice that can be spoken with ({error}).") from None
        except Exception as error:  # onnxruntime has no base class for its own
            words = str(error).strip().splitlines()[0]
            raise InputError(f"{folder}: can't be loaded by onnxruntime ({words}).") from None
        if len(self._vectors) != len(self.speakers) or not self.speakers:
            raise InputError(
                f"{folder}: {ABOUT} names {len(self.speakers)} voices, and {VECTORS} holds "
                f"{len(self._vectors)}. Export it again."
            )

    def encoder(self) -> TextEncoder:
        """What reads texts for this voice; for one thread alone."""
        return TextEncoder(self._frontend, self.language, self._table, self._lexicon)

    def speak(
        self, piece: EncodedPiece, speaker: int, speed: float = 1.0, pitch_semitones: float = 0.0
    ) -> np.ndarray:
        """One piece with the pause after it: float32 (samples,) in [-1, 1]."""
        pause = piece.pause_frames if piece.is_break else round(piece.pause_frames / speed)
        if not len(piece.symbols):
            return np.zeros(HOP * pause, np.float32)
        speeds = speed * (np.ones(len(piece.symbols)) if piece.speed is None else piece.speed)
        pitches = pitch_semitones + (0 * speeds if piece.pitch is None else piece.pitch)
        given = {
            "symbols": piece.symbols[np.newaxis].astype(np.int64),
            "symbol_lengths": np.array([len(piece.symbols)], np.int64),
            "voice": self._vectors[speaker : speaker + 1],
            "speed": np.clip(speeds, *SPEED_RANGE)[np.newaxis].astype(np.float32),
            "pitch_shift": np.clip(pitches, *PITCH_RANGE)[np.newaxis].astype(np.float32),
        }
        mel, lengths = self._text_to_mel.run(["mel", "mel_lengths"], given)
        heard = np.full((1, min(pause, _HEARD_SILENCE), MEL_BINS), SILENCE, np.float32)
        mel = np.concatenate([mel[:, : lengths[0]], heard], axis=1)
        samples: np.ndarray = self._vocoder.run(None, {"mel": mel})[0][0]
        return np.pad(samples, (0, HOP * max(0, pause - _HEARD_SILENCE)))


def _session(path: Path) -> Any:
    """A session on one core: sentences are spoken side by side, and each by one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # No two sentences have the same length; what an arena keeps for one does not fit the next.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
