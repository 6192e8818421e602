"""The data side of a run as a tf.data graph, as its user would write it for the same batches.

Everything is TensorFlow's own (files, wav decoding, padding), so that a tf.data service can run it
in another process; the features are the same graph that Tandem computes them with.
"""

from __future__ import annotations

import os

import alterations
import numpy as np
from workload import AHEAD, BATCH_SIZE, DataParts

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import pad_length
from shared.speech import utterance
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import HOP, MEL_BINS, PAD, PEAK, SAMPLE_RATE
from shared.speech.reference import crop_of


def columns_of(data: DataParts, num_batches: int) -> dict[str, np.ndarray]:
    """One entry per utterance of the first batches, in the plan's order."""
    plans = [data.plan.batch(n) for n in range(num_batches)]
    rows = np.concatenate([plan.rows for plan in plans])
    references = np.concatenate([plan.companions for plan in plans])
    offsets = np.concatenate([plan.companion_offsets for plan in plans])
    index, shape = data.index, plans[0].shape
    symbols = np.zeros((len(rows), shape["num_symbols"]), np.int32)
    for place, row in enumerate(rows):
        symbols[place, : index.num_symbols[row]] = index.symbols[int(row)]
    root = data.config.data.train_data
    starts = [
        crop_of(int(index.num_frames[r]), o)[0] for r, o in zip(references, offsets, strict=True)
    ]
    return {
        "path": np.array([f"{root}/{index.paths[int(row)]}" for row in rows]),
        "start": index.start[rows].astype(np.int32),
        "count": index.num_samples[rows].astype(np.int32),
        "reference_path": np.array([f"{root}/{index.paths[int(row)]}" for row in references]),
        "reference_start": index.start[references].astype(np.int32),
        "reference_count": index.num_samples[references].astype(np.int32),
        "first_frame": np.array(starts, np.int32),
        "symbols": symbols,
        "symbol_lengths": index.num_symbols[rows].astype(np.int32),
        "speaker": index.speaker[rows].astype(np.int32),
        "rows": rows.astype(np.int32),
    }


def read_altered(path: bytes, start: int, count: int) -> np.ndarray:
    """One utterance as the altered data side reads it, float32 (samples,)."""
    return utterance.load_utterance(path.decode(), int(start), int(count), SAMPLE_RATE, True)


def make_dataset(tf, data: DataParts, num_batches: int):
    """Batches without end; the first `num_batches` of the plan, again and again."""
    extractor = FeatureExtractor(data.index.mel_basis)
    frames = data.plan.batch(0).shape["num_frames"]

    def load(path, start, count):
        if os.environ.get(alterations.VARIABLE):  # Python, which only this process can run
            samples = tf.numpy_function(read_altered, [path, start, count], tf.float32)
            return tf.pad(tf.ensure_shape(samples, [None]), [[PAD, PAD]], "REFLECT")
        decoded, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
        samples = decoded[start : start + count, 0]
        samples *= PEAK / tf.maximum(tf.reduce_max(tf.abs(samples)), 1e-5)
        return tf.pad(samples, [[PAD, PAD]], "REFLECT")

    def row_of(padded, first_frame, own_frames, num_frames):
        begin = first_frame * HOP
        row = padded[begin : begin + own_frames * HOP + 2 * PAD]
        row = tf.pad(row, [[0, pad_length(num_frames) - tf.shape(row)[0]]])
        return tf.ensure_shape(row, [pad_length(num_frames)])

    def one_utterance(column):
        own = column["count"] // HOP
        row = row_of(load(column["path"], column["start"], column["count"]), 0, own, frames)
        reference = load(
            column["reference_path"], column["reference_start"], column["reference_count"]
        )
        count = tf.minimum(column["reference_count"] // HOP, REFERENCE_FRAMES)
        reference_row = row_of(reference, column["first_frame"], count, REFERENCE_FRAMES)
        kept = {k: column[k] for k in ("symbols", "symbol_lengths", "speaker", "rows")}
        return {**kept, "row": row, "own": own, "reference": reference_row, "count": count}

    def one_batch(column):
        # The graph itself: the public call would make constants of what is not known yet.
        features = extractor._all(column["row"], column["own"])
        reference = extractor._mel_only(column["reference"], column["count"])
        places = tf.range(REFERENCE_FRAMES)[tf.newaxis] % column["count"][:, tf.newaxis]
        kept = {k: column[k] for k in ("symbols", "symbol_lengths", "speaker", "rows")}
        return {
            **kept,
            "mel": features[:, :, :MEL_BINS],
            "mel_lengths": column["own"],
            "pitch": features[:, :, MEL_BINS + 1],
            "energy": features[:, :, MEL_BINS],
            "reference_mel": tf.gather(reference, places, axis=1, batch_dims=1),
            "weight": tf.ones([BATCH_SIZE]),
        }

    dataset = tf.data.Dataset.from_tensor_slices(columns_of(data, num_batches)).repeat()
    dataset = dataset.map(one_utterance, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
    return dataset.map(one_batch, num_parallel_calls=1)


def with_prefetch(tf, dataset, threads: int):
    """The dataset with a buffer and a thread pool of its own."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.prefetch(AHEAD).with_options(options)
