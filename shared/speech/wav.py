"""Speech as a wav file."""

from __future__ import annotations

import io
import wave

import numpy as np


def wav_bytes(samples: np.ndarray, sample_rate: int) -> bytes:
    """A mono 16-bit wav of float samples (samples,) in [-1, 1]."""
    whole = np.rint(np.clip(samples, -1.0, 1.0) * 32_767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(whole.tobytes())
    return buffer.getvalue()
