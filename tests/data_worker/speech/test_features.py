"""Batched features equal the reference on every frame, and do not depend on their surroundings."""

import hashlib
import os
import subprocess
import sys

import librosa
import numpy as np
import pytest

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import fill_row, pad_length
from shared.speech import mel

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
# Whole frames, broken frames, a single frame, less than the mirror, less than a frame.
LENGTHS = (20_480, 20_481, 20_735, 25_613, 12_345, 256, 300, 385, 511, 7_777, 30_000, 100)


def row_of(audio, num_frames, first_frame=0):
    """A row for the feature graph, on its own."""
    row = np.empty(pad_length(num_frames), np.float32)
    fill_row(row, audio, first_frame)
    return row


@pytest.fixture(scope="module", params=[False, True], ids=["by chunks", "as on a GPU"])
def extractor(request):
    return FeatureExtractor(BASIS, request.param)


def utterance(seed, num_samples):
    """A gliding voice in some noise: pitch, silence and empty bands all occur."""
    rng = np.random.default_rng(seed)
    hertz = rng.uniform(80, 300) * np.exp(np.cumsum(rng.normal(0, 3e-4, num_samples)))
    phase = np.cumsum(hertz) / 22_050
    voice = sum(np.sin(2 * np.pi * k * phase) / k**1.5 for k in range(1, 12))
    loudness = np.clip(np.sin(np.arange(num_samples) / 3_000 + seed), 0, 1)
    return (0.3 * loudness * voice + rng.normal(0, 1e-4, num_samples)).astype(np.float32)


def features_of(extractor, utterances, num_frames):
    """Per utterance: log mel (frames, 80), energy (frames,), pitch (frames,); and the batch."""
    rows = np.stack([row_of(samples, num_frames) for samples in utterances])
    lengths = np.array([mel.frames_of(len(samples)) for samples in utterances], np.int32)
    columns = extractor(rows, lengths)
    batch = [columns[:, :, :80], columns[:, :, 80], columns[:, :, 81]]
    return [tuple(values[k, :n] for values in batch) for k, n in enumerate(lengths)], batch


def test_all_frames_of_mixed_lengths_equal_the_reference(extractor):
    utterances = [utterance(seed, length) for seed, length in enumerate(LENGTHS)]
    found, _ = features_of(extractor, utterances, 120)
    for samples, (log_mel, energy, _) in zip(utterances, found, strict=True):
        np.testing.assert_allclose(log_mel, mel.log_mel(samples, BASIS), atol=1e-4)
        np.testing.assert_allclose(energy, mel.energy(samples), rtol=1e-5)


def test_a_loud_vowel_does_not_drown_the_bands_near_8_khz(extractor):
    # A band-limited voice at full scale leaves the highest mel bins 120 dB below the lowest.
    time_s = np.arange(22_050) / 22_050
    samples = sum(np.cos(2 * np.pi * 130 * k * time_s + k * k) / k for k in range(1, 20))
    samples = (0.95 * samples / np.abs(samples).max()).astype(np.float32)
    samples += np.random.default_rng(0).normal(0, 5e-6, len(samples)).astype(np.float32)
    [(log_mel, _, _)], _ = features_of(extractor, [samples], 86)
    np.testing.assert_allclose(log_mel, mel.log_mel(samples, BASIS), atol=1e-4)


@pytest.mark.parametrize("hertz", [100, 3_000])
def test_what_a_full_scale_tone_leaks_into_other_bands_is_exact(extractor, hertz):
    samples = (0.95 * np.sin(2 * np.pi * hertz * np.arange(22_050) / 22_050)).astype(np.float32)
    [(log_mel, _, _)], _ = features_of(extractor, [samples], 86)
    np.testing.assert_allclose(log_mel, mel.log_mel(samples, BASIS), atol=1e-4)


def test_padding_is_the_floor_and_zero(extractor):
    utterances = [utterance(seed, length) for seed, length in enumerate(LENGTHS)]
    _, (log_mel, energy, pitch) = features_of(extractor, utterances, 120)
    assert log_mel.dtype == energy.dtype == pitch.dtype == np.float32
    assert log_mel.shape == (12, 120, 80) and energy.shape == pitch.shape == (12, 120)
    for k, samples in enumerate(utterances):
        start = mel.frames_of(len(samples))
        assert (log_mel[k, start:] == np.float32(np.log(1e-5))).all()
        assert not energy[k, start:].any() and not pitch[k, start:].any()


@pytest.mark.parametrize(
    ("num_rows", "num_frames"),
    [(1, 97), (1, 98), (2, 100), (3, 131), (7, 117), (12, 333), (16, 128), (5, 640), (2, 811)],
)
def test_features_are_bit_identical_in_any_batch(extractor, num_rows, num_frames):
    subject = utterance(99, 24_999)
    [expected], _ = features_of(extractor, [subject], 97)
    for slot in {0, num_rows // 2, num_rows - 1}:
        others = [utterance(k, LENGTHS[k % len(LENGTHS)]) for k in range(num_rows)]
        others = [samples[: num_frames * 256] for samples in others]
        others[slot] = subject
        found, _ = features_of(extractor, others, num_frames)
        for mine, theirs in zip(expected, found[slot], strict=True):
            np.testing.assert_array_equal(mine, theirs)


def digest_of_a_batch():
    utterances = [utterance(seed, 22_050 + 1_111 * seed) for seed in range(8)]
    found, _ = features_of(FeatureExtractor(BASIS), utterances, 120)
    return hashlib.sha256(b"".join(v.tobytes() for row in found for v in row)).hexdigest()


def test_the_number_of_threads_changes_no_bit():
    program = (
        "import sys, tensorflow as tf; sys.path[:0] = sys.argv[2:]\n"
        "tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))\n"
        "tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[1]))\n"
        "import test_features; print(test_features.digest_of_a_batch())"
    )
    here = os.path.dirname(__file__)
    digests = set()
    for num_threads in ("1", "5"):
        done = subprocess.run(
            [sys.executable, "-c", program, num_threads, os.getcwd(), here],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        digests.add(done.stdout.split()[-1])
    assert len(digests) == 1


def test_the_mel_alone_and_a_crop_of_it_are_the_same_bits(extractor):
    samples = utterance(5, 40_000)
    [(expected, _, _)], _ = features_of(extractor, [samples], 156)
    crop = row_of(samples, 64, first_frame=30)[None]
    found = extractor.mel(crop, np.array([64], np.int32))[0]
    np.testing.assert_array_equal(found, expected[30:94])


def test_one_graph_per_shape():
    extractor = FeatureExtractor(BASIS)
    extractor.warm_up(3, 40)
    assert extractor.num_traces == 1
    for seed in range(3):
        features_of(extractor, [utterance(seed + k, 9_000 + 100 * k) for k in range(3)], 40)
    assert extractor.num_traces == 1
    features_of(extractor, [utterance(0, 9_000)], 40)
    assert extractor.num_traces == 2


def test_digital_silence_gives_finite_features(extractor):
    [(log_mel, energy, pitch)], _ = features_of(extractor, [np.zeros(10_000, np.float32)], 39)
    np.testing.assert_allclose(log_mel, np.log(1e-5), atol=1e-6)
    assert np.isfinite(energy).all() and not pitch.any()
