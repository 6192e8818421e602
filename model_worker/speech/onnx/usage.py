"""The README that goes with a voice's ONNX files."""

from __future__ import annotations

from shared.speech.mel import SAMPLE_RATE

_PHONEMES = """\
The symbols are the phonemes (IPA with stress marks) that espeak-ng hears in a text, language
`{language}`, with a space between words and the punctuation `, . ! ? ; : — …` kept."""
_CHARACTERS = """\
The symbols are the characters of the text in lower case (Unicode NFC), with single spaces."""

_README = """\
# A voice

`voice.onnx` with `voice.onnx.json` is a voice in Piper's convention. Whatever speaks Piper's voices
speaks it:

```
python -m piper -m voice.onnx -f out.wav "{example}"
```

The same without a program of somebody's, with `onnxruntime` and `numpy`:

```python
import json, wave
import numpy as np, onnxruntime

folder = "{folder}"  # the folder that this file is in
about = json.load(open(folder + "/symbols.json", encoding="utf-8"))
number = {{symbol: i for i, symbol in enumerate(about["symbol_table"])}}
symbols = about["example"]["symbols"]  # {example}
ids = [number["<s>"], *(number[s] for s in symbols if s in number), number["</s>"]]

spoken = onnxruntime.InferenceSession(folder + "/text-to-mel.onnx").run(["mel"], {{
    "symbols": np.array([ids]),
    "symbol_lengths": np.array([len(ids)]),
    "voice": np.load(folder + "/voices.npy")[:1],  # one for each of about["speakers"]
    "speed": np.ones((1, len(ids)), np.float32),         # 2.0 is twice as fast
    "pitch_shift": np.zeros((1, len(ids)), np.float32),  # semitones
}})
samples = onnxruntime.InferenceSession(folder + "/vocoder.onnx").run(None, {{"mel": spoken[0]}})[0][0]
with wave.open("out.wav", "wb") as file:
    file.setparams((1, 2, about["sample_rate"], 0, "NONE", ""))
    file.writeframes((samples * 32767).astype("<i2").tobytes())
```

## Text to symbols

{frontend}
What is not in `symbol_table` has to be left out. `<s>` and `</s>` are the silence before and after;
`_` (number 0) pads the shorter rows of a batch.

## Files

| file | takes | gives |
|---|---|---|
| `voice.onnx` | `input` int64 (1, numbers), `input_lengths` int64 (1,), `scales` float32 (3,), of which \
the second is how slow{sid} | `output` float32 (1, 1, samples) |
| `text-to-mel.onnx` | `symbols` int64 (batch, symbols), `symbol_lengths` int64 (batch,), `voice` \
float32 (batch, size), `speed` and `pitch_shift` float32 (batch, symbols) | `mel` float32 (batch, frames, 80), \
`mel_lengths`, `durations` (frames of each symbol) |
| `reference-encoder.onnx` | `recording` float32 (samples,) at {sample_rate} Hz, of one voice, silence \
cut off | `voice` float32 (1, size) |
| `vocoder.onnx` | `mel` float32 (batch, frames, 80) | `waveform` float32 (batch, frames * 256) |

The mel is HiFi-GAN's: natural log, 80 bins up to 8 kHz, hop 256. Samples have {sample_rate} Hz.
"""


def usage(folder: str, frontend: str, language: str, example: str, num_speakers: int) -> str:
    """The README's text."""
    words = _PHONEMES.format(language=language) if frontend == "phonemes" else _CHARACTERS
    sid = ", `sid` int64 (1,), the speaker" if num_speakers > 1 else ""
    return _README.format(
        folder=folder, frontend=words, example=example, sample_rate=SAMPLE_RATE, sid=sid
    )
