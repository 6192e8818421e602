"""The README that goes with an exported voice."""

from __future__ import annotations

_PHONEMES = """\
The symbols are the phonemes (IPA with stress marks) that espeak-ng hears in a text, language
`{language}`, with a space between words and the punctuation `, . ! ? ; : — …` kept."""
_CHARACTERS = """\
The symbols are the characters of the text in lower case (Unicode NFC), with single spaces."""

_README = """\
# A voice

A TensorFlow SavedModel that turns symbols into a mel spectrogram or straight into speech. It needs
`tensorflow` and `numpy` and nothing else.

```python
import json, wave
import numpy as np, tensorflow as tf

folder = "{folder}"  # the folder that this file is in
voice = tf.saved_model.load(folder)
about = json.load(open(folder + "/symbols.json", encoding="utf-8"))
number = {{symbol: i for i, symbol in enumerate(about["symbol_table"])}}

symbols = about["example"]["symbols"]  # {example}
ids = [number["<s>"], *(number[s] for s in symbols if s in number), number["</s>"]]
mels = np.load(folder + "/voices.npy")  # one reference for each of about["speakers"]

spoken = voice.signatures["waveform"](
    symbols=tf.constant([ids], tf.int32),
    symbol_lengths=tf.constant([len(ids)], tf.int32),
    reference_mel=tf.constant(mels[:1]),
    speed=tf.constant(1.0),        # 2.0 is twice as fast
    pitch_shift=tf.constant(0.0),  # semitones
)
samples = spoken["waveform"][0, : spoken["waveform_lengths"][0]].numpy()
with wave.open("out.wav", "wb") as file:
    file.setparams((1, 2, about["sample_rate"], 0, "NONE", ""))
    file.writeframes((samples * 32767).astype("<i2").tobytes())
```

## Text to symbols

{frontend}
What is not in `symbol_table` has to be left out. `<s>` and `</s>` are the silence before and after;
`_` (number 0) pads the shorter rows of a batch.

## Signatures

| name | takes | gives |
|---|---|---|
| `mel` | `symbols` int32 (batch, symbols), `symbol_lengths` int32 (batch,), `reference_mel` \
float32 (batch, {reference_frames}, 80), `speed` and `pitch_shift` float32 scalars | \
`mel` float32 (batch, frames, 80), `mel_lengths`, `durations` (frames of each symbol) |
| `waveform` | the same | `waveform` float32 (batch, samples) at {sample_rate} Hz, \
`waveform_lengths` |
| `reference` | `recording` float32 (samples,) at {sample_rate} Hz, of one voice, silence cut off \
| `reference_mel` float32 (1, {reference_frames}, 80) |

The mel is HiFi-GAN's: natural log, 80 bins up to 8 kHz, hop 256. A HiFi-GAN vocoder for
{sample_rate} Hz takes it as it is (some want it transposed). `waveform` is made by {vocoder}.
"""


def usage(
    folder: str,
    frontend: str,
    language: str,
    example: str,
    sample_rate: int,
    reference_frames: int,
    vocoder: str,
) -> str:
    """The README's text; `vocoder` is what makes the waveform."""
    words = _PHONEMES.format(language=language) if frontend == "phonemes" else _CHARACTERS
    return _README.format(
        folder=folder, frontend=words, example=example, sample_rate=sample_rate,
        reference_frames=reference_frames, vocoder=vocoder,
    )  # fmt: skip
