"""What a batch of speech holds: declared once, for the process that makes it and the one it is for."""

from __future__ import annotations

from shared.speech.mel import MEL_BINS, SILENCE
from shared.task.batch import Array, BatchForm

REFERENCE_FRAMES = 192

LENGTHS = ("num_frames", "num_symbols")
ARRAYS = {
    "symbols": Array("int32", "num_symbols"),
    "symbol_lengths": Array("int32", padding=1),
    "mel": Array("float32", "num_frames", MEL_BINS, padding=SILENCE),
    "mel_lengths": Array("int32", padding=1),
    "pitch": Array("float32", "num_frames"),
    "energy": Array("float32", "num_frames"),
    "reference_mel": Array("float32", REFERENCE_FRAMES, MEL_BINS, padding=SILENCE),
    "speaker": Array("int32"),
}
COMPANION = "group"
GROUP_COLUMN = "speaker"
FORM = BatchForm(ARRAYS, LENGTHS, COMPANION, GROUP_COLUMN)
