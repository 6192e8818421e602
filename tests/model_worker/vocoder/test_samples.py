"""What is shown of a vocoder: recordings as they are read for it, copies, and whether it is better."""

import dataclasses

import keras
import librosa
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from model_worker.vocoder.generator import Generator, GeneratorShape, Scale
from model_worker.vocoder.judgement import FILE, Judgement, read_judgement
from model_worker.vocoder.samples import CopiedSamples
from shared.config.settings import Config, DataConfig, RunConfig
from shared.errors import InputError
from shared.plan.index import Index, StringColumn
from shared.speech.mel import HOP, PEAK, SAMPLE_RATE
from shared.speech.wav import wav_bytes

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
LENGTHS = (20_000, 9_000, 1_000)
RATES = (SAMPLE_RATE, SAMPLE_RATE // 2, SAMPLE_RATE)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A viewer after a validation on four recordings: what it wrote.

    One of them is at another rate, one too short to be compared, and one is gone.
    """
    data, samples = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("samples")
    time_s = np.arange(max(LENGTHS)) / SAMPLE_RATE
    harmonics = np.arange(1, 20)[:, np.newaxis]
    buzz = (np.sin(2 * np.pi * 140.0 * harmonics * time_s) / harmonics).sum(axis=0)
    for name, count, rate in zip("abc", LENGTHS, RATES, strict=True):
        soundfile.write(data / f"{name}.wav", 0.1 * buzz[:count], rate)
    index = Index(
        columns={
            "ids": StringColumn.of("abcd"),
            "paths": StringColumn.of(["a.wav", "b.wav", "c.wav", "gone.wav"]),
            "root": np.zeros(4, np.uint8),
            "start": np.array([100, 0, 0, 0], np.int64),
            "num_samples": np.array([*LENGTHS, 1_000], np.int64) - 100,
            "sample_rate": np.array([*RATES, SAMPLE_RATE], np.int32),
        },
        tables={"mel_basis": BASIS},
        facts={},
        left_out=[],
    )
    keras.utils.set_random_seed(1)
    model = Generator(GeneratorShape(16, 1, 32), Scale(-5.0, 2.0, 5.0, 0.2), BASIS)
    model.speak(tf.zeros([1, 4, 80]))
    config = dataclasses.replace(
        Config(), data=DataConfig(train_data=str(data)), run=RunConfig(samples=1)
    )
    viewer = CopiedSamples(model, index, config)
    assert viewer.make(samples) is None  # no validation yet
    for rows in ([2, 0, -1], [0, 3, 1]):  # the second is from a validation that was begun again
        viewer.keep({"rows": tf.constant(rows)})
    made = viewer.make(samples)
    (samples / "step").mkdir()
    return samples, made, viewer.write(made, samples, samples / "step")


def test_a_recording_is_read_from_where_its_speech_begins_at_its_level(shown):
    _, made, _ = shown
    (copied,) = made.copied  # --samples 1
    assert len(copied.true) == len(copied.made) == (LENGTHS[0] - 100) // HOP * HOP
    assert np.abs(copied.true).max() == pytest.approx(PEAK, abs=0.01)


def test_both_copies_are_judged_by_all_recordings_and_it_is_said(shown):
    samples, made, _ = shown
    assert read_judgement(samples) == made.judgement
    assert made.judgement.num_clips == 2
    assert made.judgement.griffin_lim > 0 and made.judgement.vocoder > 0
    words = (samples / "step" / "remark.txt").read_text()
    assert words == made.judgement.in_words and "2 held-out recordings" in words


def test_there_is_a_wav_and_a_picture_of_each_sample(shown):
    samples, made, said = shown
    assert sorted(path.name for path in (samples / "step").iterdir()) == [
        "0.png", "0.wav", "remark.txt",
    ]  # fmt: skip
    assert (samples / "recorded" / "0.wav").read_bytes() == wav_bytes(
        made.copied[0].true, SAMPLE_RATE
    )
    assert [each.name for each in said] == ["copied/0", "spectrum/0"]


def test_the_nearer_one_is_the_better_one(tmp_path):
    better, worse = Judgement(8, 0.5, 0.6), Judgement(1, 0.6, 0.6)
    assert better.is_better and not worse.is_better
    assert "nearer to 8 held-out recordings than Griffin-Lim" in better.in_words
    assert "no nearer yet to a held-out recording" in worse.in_words
    assert read_judgement(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        read_judgement(tmp_path)
