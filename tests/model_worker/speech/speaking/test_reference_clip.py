"""The reference clip: the same mel as training makes, and a sentence for what can't be one."""

import os

import numpy as np
import pytest
import soundfile

from model_worker.speech.speaking.reference_clip import (
    mel_of_recording,
    mel_of_speaker,
    speaker_number,
)
from shared.config.settings import Config, DataConfig
from shared.errors import InputError
from shared.plan.index import StringColumn
from shared.speech.mel import log_mel

RATE = 22_050
BASIS = np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50
DATA = Config(data=DataConfig(train_data="nowhere"))


def tone(seconds: float, rate: int = RATE) -> np.ndarray:
    time_s = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * 220 * time_s)).astype(np.float32)


def written(tmp_path, audio, rate: int = RATE, name: str = "voice.wav") -> str:
    soundfile.write(tmp_path / name, audio, rate)
    return str(tmp_path / name)


def test_a_recording_is_trimmed_and_levelled_and_its_middle_taken(tmp_path):
    silence = np.zeros(RATE, np.float32)
    path = written(tmp_path, np.concatenate([silence, tone(4.0), silence]))
    mel = mel_of_recording(path, DATA, BASIS)
    assert mel.shape == (192, 80) and mel.dtype == np.float32
    expected = log_mel(tone(4.0) / 0.3 * 0.95, BASIS)[100:110].mean()
    assert mel.mean() == pytest.approx(expected, abs=0.05)
    assert mel.std(axis=0).max() < 0.1  # no silence in it


def test_a_short_recording_is_repeated(tmp_path):
    mel = mel_of_recording(written(tmp_path, tone(1.0)), DATA, BASIS)
    np.testing.assert_array_equal(mel[86 : 2 * 86], mel[:86])


def test_stereo_at_another_rate_sounds_the_same(tmp_path):
    stereo = np.repeat(tone(3.0, 48_000)[:, np.newaxis], 2, axis=1)
    mel = mel_of_recording(written(tmp_path, stereo, 48_000, "a.flac"), DATA, BASIS)
    usual = mel_of_recording(written(tmp_path, tone(3.0)), DATA, BASIS)
    assert np.abs(mel - usual).max() < 0.1


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (np.zeros(RATE), "holds no sound"),
        (tone(0.1), "at least 0.3 s"),
        (np.full(RATE, np.nan), "holds no sound"),
        (tone(121.0), "at most 120 s"),
        (np.zeros(0), "holds no sound"),
    ],
)
def test_what_is_no_voice_is_refused(tmp_path, audio, words):
    soundfile.write(tmp_path / "voice.wav", audio, RATE, subtype="FLOAT")
    with pytest.raises(InputError, match=words):
        mel_of_recording(str(tmp_path / "voice.wav"), DATA, BASIS)


@pytest.mark.parametrize(("channels", "rate"), [(17, RATE), (1, 999), (1, 768_001)])
def test_what_no_microphone_records_is_refused_with_the_limits(tmp_path, channels, rate):
    path = written(tmp_path, np.zeros((8, channels), np.float32), rate)
    expected = "expected 1,000 to 768,000 Hz and at most 16 channels."
    with pytest.raises(InputError, match=f"has {rate:,} Hz and {channels} channels; {expected}"):
        mel_of_recording(path, DATA, BASIS)


def test_what_is_no_recording_is_refused(tmp_path):
    (tmp_path / "text.wav").write_text("not audio")
    os.mkfifo(tmp_path / "pipe.wav")
    for name, words in [
        ("text.wav", "is not audio"), ("gone.wav", "No such file"), (".", "is not a file"),
        ("pipe.wav", "is not a file"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=words):
            mel_of_recording(str(tmp_path / name), DATA, BASIS)


@pytest.fixture
def index(tmp_path):
    from types import SimpleNamespace

    for name, seconds in [("a", 0.5), ("b", 3.0), ("c", 3.0)]:
        written(tmp_path, tone(seconds), name=f"{name}.wav")
    return SimpleNamespace(
        speakers=["anna", "ben"], paths=StringColumn.of(["a.wav", "b.wav", "c.wav"]),
        speaker=np.array([0, 0, 1]), split=np.array([0, 0, 1]), root=np.zeros(3, np.uint8),
        num_frames=np.array([43, 258, 258]), start=np.array([0, RATE, 0]),
        num_samples=np.array([RATE // 2, 2 * RATE, 3 * RATE]), mel_basis=BASIS,
    )  # fmt: skip


def test_a_speaker_has_a_long_training_clip_as_reference(tmp_path, index):
    data = Config(data=DataConfig(train_data=str(tmp_path)))
    mel = mel_of_speaker("anna", index, data)
    audio = tone(3.0)[RATE:] * np.float32(0.95 / 0.3)
    assert mel.shape == (172 + 20, 80)
    np.testing.assert_allclose(mel[:172], log_mel(audio, BASIS), atol=0.02)
    np.testing.assert_array_equal(mel_of_speaker(None, index, data), mel)


def test_a_speaker_without_clips_or_without_its_folder_is_explained(tmp_path, index):
    with pytest.raises(InputError, match="'ben'.*no training clip.*--reference"):
        mel_of_speaker("ben", index, Config(data=DataConfig(train_data=str(tmp_path))))
    with pytest.raises(InputError, match="'anna'.*No such file.*--reference"):
        mel_of_speaker("anna", index, Config(data=DataConfig(train_data=str(tmp_path / "gone"))))


def test_an_unknown_speaker_is_told_the_nearest(index):
    with pytest.raises(InputError, match="Did you mean anna.*anna, ben"):
        speaker_number("ana", index)
