"""A run's voice, ready to speak: the averaged weights of its best checkpoint, and its index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from model_worker.checkpoints.files import Checkpoint
from model_worker.speech.network.acoustic_model import AcousticModel, build_model
from model_worker.speech.speaking.speaking_graph import SYMBOL_MULTIPLE, speaking_each_symbol
from shared.errors import CheckpointError
from shared.plan.buckets import round_up
from shared.plan.index import Index
from shared.speech.corpus_statistics import Statistics
from shared.speech.mel import MEL_BINS, SILENCE
from shared.speech.text.encoder import EncodedPiece
from shared.speech.text.markup import PITCH_RANGE, SPEED_RANGE


@dataclasses.dataclass(frozen=True)
class Spoken:
    """mel: float32 (frames, 80), natural log; durations: int32 (num_symbols,), frames of each."""

    mel: np.ndarray
    durations: np.ndarray

    @property
    def alignment(self) -> np.ndarray:
        """float32 (frames, num_symbols): 1.0 where a frame belongs to a symbol."""
        return np.repeat(np.eye(len(self.durations), dtype=np.float32), self.durations, axis=0)


def load_model(index: Index, model_size: str, checkpoint: Checkpoint) -> AcousticModel:
    """The model with the checkpoint's averaged weights, in float32.

    Raises:
        CheckpointError: the weights are of another model or symbol table.
    """
    keras.config.set_dtype_policy("float32")
    model = build_model(model_size, len(index.symbol_table), Statistics.of_index(index))
    arrays = [array for _, array in sorted(checkpoint.groups["ema"].items())]
    variables = model.trainable_variables
    if [tuple(a.shape) for a in arrays] != [tuple(v.shape) for v in variables]:
        raise CheckpointError(
            f"{checkpoint.path}: its weights do not fit a {model_size} model with "
            f"{len(index.symbol_table)} symbols. The run directory holds parts of different runs."
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return model


class Voice:
    """Speaks symbols in the voice of a reference mel."""

    def __init__(self, model: AcousticModel):
        self._speak = speaking_each_symbol(model)

    def warm_up(self, reference_mel: np.ndarray) -> None:
        """Trace and optimise the graph, so that the first sentence is as fast as the others."""
        self.speak_ids(np.ones(2, np.int32), reference_mel)

    def speak_ids(
        self,
        symbols: np.ndarray,
        reference_mel: np.ndarray,
        speed: float | np.ndarray = 1.0,
        pitch_semitones: float | np.ndarray = 0.0,
    ) -> Spoken:
        """Speak one utterance.

        Args:
            symbols: int (num_symbols,), with the silence at both ends.
            reference_mel: float32 (REFERENCE_FRAMES, 80), natural log.
            speed, pitch_semitones: for all symbols, or float32 (num_symbols,), one for each.
        """
        num_symbols = len(symbols)
        length = round_up(num_symbols, SYMBOL_MULTIPLE)
        padded = np.zeros((1, length), np.int32)
        padded[0, :num_symbols] = symbols
        pitches = np.zeros((1, length), np.float32)
        speeds = np.full((1, length), np.max(speed), np.float32)  # padding slows nothing down
        speeds[0, :num_symbols] = speed
        pitches[0, :num_symbols] = pitch_semitones
        mel, lengths, durations = self._speak(
            tf.constant(padded),
            tf.constant([num_symbols], tf.int32),
            tf.constant(reference_mel[np.newaxis], tf.float32),
            tf.constant(np.clip(speeds, *SPEED_RANGE)),
            tf.constant(np.clip(pitches, *PITCH_RANGE)),
        )
        return Spoken(mel[0, : lengths[0]].numpy(), durations[0, :num_symbols].numpy())

    def speak_pieces(
        self,
        pieces: Iterable[EncodedPiece],
        reference_mel: np.ndarray,
        speed: float = 1.0,
        pitch_semitones: float = 0.0,
    ) -> list[np.ndarray]:
        """The mel of each piece with the pause that follows it: float32 (frames, 80) each."""
        mels = []
        for piece in pieces:
            pause = silence(
                piece.pause_frames if piece.is_break else round(piece.pause_frames / speed)
            )
            if not len(piece.symbols):
                mels.append(pause)
                continue
            each_speed = speed if piece.speed is None else speed * piece.speed
            each_pitch = pitch_semitones if piece.pitch is None else pitch_semitones + piece.pitch
            spoken = self.speak_ids(piece.symbols, reference_mel, each_speed, each_pitch)
            mels.append(np.concatenate([spoken.mel, pause]))
        return mels


def silence(num_frames: int) -> np.ndarray:
    """The mel of silence: float32 (num_frames, 80)."""
    return np.full((num_frames, MEL_BINS), SILENCE, np.float32)
