"""Where do words end? The learned alignment beside pocketsphinx's forced alignment.

    python benchmarks/voice_alignment.py --run RUN --held-out corpora/rms/held_out

aligns the held-out recordings with the run's model, which never saw them, and prints how far its
word boundaries are from the recogniser's: median and 90th percentile in milliseconds. Sentences in
which espeak-ng joins two words, or whose words the recogniser does not know, are left out and
counted.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from voice_score import Recogniser, read_metadata, read_wav

MILLISECONDS_PER_FRAME = 256 / 22.05


class Aligner:
    """The alignment that a run's model has learned."""

    def __init__(self, run: Path):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        from model_worker.checkpoints.averaged import averaged_checkpoint
        from model_worker.speech.speaking.loaded_voice import load_model
        from shared.config.toml_file import load_config
        from shared.plan.index import Index
        from shared.run.directory import RunDirectory
        from shared.speech.text.encoder import TextEncoder

        directory = RunDirectory(run)
        self._index = Index.load(directory.index)
        size = load_config(directory.config).task.model_size
        self._model = load_model(
            self._index, size, averaged_checkpoint(directory, print, "to speak with")
        )
        self._encoder = TextEncoder.of_index(self._index)

    def word_ends_ms(self, audio: np.ndarray, text: str) -> list[float]:
        """End of the last sound of each word that is spoken as one."""
        import tensorflow as tf

        from model_worker.speech.speaking.reference_clip import reference_mel_of
        from shared.speech.mel import log_mel
        from shared.speech.text.frontend import MARKS

        mel = log_mel(audio, self._index.mel_basis)
        pieces = self._encoder.encode(text)
        if len(pieces) != 1:
            return []
        ids = pieces[0].symbols
        batch = {
            "symbols": tf.constant(ids[np.newaxis]),
            "symbol_lengths": tf.constant([len(ids)]),
            "mel": tf.constant(mel[np.newaxis]),
            "mel_lengths": tf.constant([len(mel)]),
            "pitch": tf.zeros([1, len(mel)]),
            "energy": tf.zeros([1, len(mel)]),
            "reference_mel": tf.constant(
                reference_mel_of(audio, self._index.mel_basis)[np.newaxis]
            ),
        }
        outputs = self._model.training_outputs(batch, training=False, step=1 << 30)
        ends = np.cumsum(outputs["durations"].numpy()[0])
        symbols = [self._index.symbol_table[i] for i in ids]
        silent = {" ", *MARKS, symbols[-1]}
        last_sounds = [
            i
            for i, symbol in enumerate(symbols[:-1])
            if i and symbol not in silent and symbols[i + 1] in silent
        ]
        return [float(ends[i]) * MILLISECONDS_PER_FRAME for i in last_sounds]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True)
    flags = parser.parse_args()
    aligner, recogniser = Aligner(flags.run), Recogniser()
    distances, left_out = [], 0
    for path, _, text in read_metadata(flags.held_out):
        audio = read_wav(path).astype(np.float32)
        expected = recogniser.word_ends_s(audio, text)
        found = aligner.word_ends_ms(audio, text)
        if expected is None or len(expected) != len(found):
            left_out += 1
            continue
        distances += [abs(a - 1000 * b) for a, (_, b) in zip(found, expected, strict=True)]
    median, high = np.percentile(distances, [50, 90])
    print(
        f"{len(distances)} word boundaries, {left_out} sentences left out: "
        f"median {median:.0f} ms apart, 90th percentile {high:.0f} ms"
    )


if __name__ == "__main__":
    main()
