"""What a batch of the vocoder holds: declared once, for the process that makes it and the one it is for."""

from __future__ import annotations

from shared.speech.batch import GROUP_COLUMN
from shared.speech.mel import HOP, MEL_BINS, SILENCE
from shared.task.batch import Array, BatchForm

SEGMENT_FRAMES = 32
FULL_SCALE = 32_767  # of the samples, which are whole numbers: half the bytes of floats

ARRAYS = {
    "audio": Array("int16", SEGMENT_FRAMES * HOP),
    "gain": Array("float32", padding=1),  # what the audio is to be multiplied by
    "mel": Array("float32", SEGMENT_FRAMES, MEL_BINS, padding=SILENCE),
    "log_f0": Array("float32", SEGMENT_FRAMES, padding=5.0),
}
FORM = BatchForm(ARRAYS, (), None, GROUP_COLUMN)
