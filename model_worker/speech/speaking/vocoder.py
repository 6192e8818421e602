"""Mel to waveform: Griffin-Lim, a vocoder of our own, or one of the HiFi-GAN convention as a SavedModel."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf

from model_worker.vocoder.griffin_lim import GriffinLim
from model_worker.vocoder.speaking import TrainedVocoder, load_generator
from model_worker.vocoder.trained_run import TrainedRun
from shared.errors import InputError
from shared.speech.mel import HOP, MEL_BINS


class Vocoder(Protocol):
    """Makes samples of mels."""

    name: str  # as people are told

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """mel float32 (frames, 80), natural log -> float32 (frames * HOP,) in [-1, 1]"""


def chosen_vocoder(chosen: TrainedRun | str | None, mel_basis: np.ndarray) -> Vocoder:
    """That of a run, that of a SavedModel's folder, or Griffin-Lim.

    Raises:
        TandemError: it can't be loaded.
    """
    if isinstance(chosen, TrainedRun):
        return TrainedVocoder(load_generator(chosen), chosen.name)
    return SavedVocoder(chosen) if chosen else GriffinLim(mel_basis)


class SavedVocoder:
    """A SavedModel from mel, (1, frames, 80) or (1, 80, frames), to samples."""

    def __init__(self, path: str):
        """Raises InputError when there is no vocoder in `path`."""
        self.name = Path(path).name
        self._path = path
        try:
            self._loaded = tf.saved_model.load(path)  # its resources live as long as it does
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            words = str(error).strip().splitlines()[0]
            raise InputError(f"--vocoder {path}: can't be loaded ({words}).") from None
        signatures = dict(self._loaded.signatures)
        if not signatures:
            raise InputError(
                f"--vocoder {path}: has no signature. Export it with one from mel to waveform."
            )
        self._signature = signatures.get("serving_default") or next(iter(signatures.values()))
        self._input, self._bins_last = self._mel_input()

    def _mel_input(self) -> tuple[str, bool]:
        """Name of the mel input, and whether the mel bins are its last axis."""
        inputs = self._signature.structured_input_signature[1]
        for name, spec in inputs.items():
            if spec.shape.rank == 3 and MEL_BINS in (spec.shape[1], spec.shape[2]):
                return name, spec.shape[2] == MEL_BINS
        found = ", ".join(f"{name} {spec.shape}" for name, spec in inputs.items())
        raise InputError(
            f"--vocoder {self._path}: takes {found or 'nothing'}; expected a mel of shape "
            f"(1, frames, {MEL_BINS}) or (1, {MEL_BINS}, frames)."
        )

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """mel float32 (frames, 80), natural log -> float32 (frames * HOP,)

        Raises:
            InputError: the vocoder has another hop, or could not work with the mel.
        """
        array = mel if self._bins_last else mel.T
        try:
            outputs = self._signature(**{self._input: tf.constant(array[np.newaxis])})
        except tf.errors.OpError as error:
            words = (error.message or str(error)).splitlines()[0]
            raise InputError(f"--vocoder {self._path}: failed on a mel ({words}).") from None
        samples = next(iter(outputs.values())).numpy().reshape(-1).astype(np.float32)
        # Some cut or add a part of a frame at the ends; another hop is another sample rate.
        if abs(len(samples) - len(mel) * HOP) > HOP:
            raise InputError(
                f"--vocoder {self._path}: made {len(samples):,} samples of {len(mel)} mel frames; "
                f"expected {HOP} for each. It was trained for another mel."
            )
        samples = np.pad(samples, (0, HOP))[: len(mel) * HOP]
        return np.clip(np.nan_to_num(samples), -1.0, 1.0)
