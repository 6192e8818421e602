"""Utterances come out of their files as the index says, or with a reason why not."""

import os

import numpy as np
import pytest
import soundfile

from shared.errors import ReadError
from shared.speech.mel import resampled_length
from shared.speech.utterance import load_utterance


def tone(rate, seconds=1.0, hertz=220.0, peak=0.5):
    return (peak * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)).astype("f4")


def written(path, samples, rate, **options):
    soundfile.write(path, samples, rate, **options)
    return path


def failure_of(*arguments):
    with pytest.raises(ReadError) as caught:
        load_utterance(*arguments)
    assert str(arguments[0]) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_any_rate_becomes_22050_of_exactly_the_planned_length(tmp_path, rate):
    path = written(tmp_path / "a.wav", tone(rate, 0.7), rate)
    count = soundfile.info(path).frames - 13
    found = load_utterance(path, 5, count, rate, False)
    assert found.dtype == np.float32
    assert found.shape == (resampled_length(count, rate),)
    expected = 0.5 * np.sin(2 * np.pi * 220 * (np.arange(len(found)) / 22_050 + 5 / rate))
    np.testing.assert_allclose(found[500:-500], expected[500:-500], atol=0.01)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.wav", {"subtype": "PCM_U8"}),
        ("a.wav", {"subtype": "PCM_24"}),
        ("a.wav", {"subtype": "FLOAT"}),
        ("a.flac", {}),
        ("a.ogg", {}),
        ("a.opus", {"format": "OGG", "subtype": "OPUS"}),
        ("a.mp3", {}),
        ("mp3.wav", {"format": "MP3"}),
    ],
)
def test_the_usual_formats_are_read(tmp_path, name, options):
    rate = 48_000
    path = written(tmp_path / name, tone(rate), rate, **options)
    found = load_utterance(path, 0, 40_000, rate, False)
    assert found.shape == (resampled_length(40_000, rate),)
    assert 0.3 < np.sqrt(np.mean(found[2000:-2000] ** 2)) < 0.4


def test_the_stretch_begins_at_its_first_sample(tmp_path):
    samples = np.linspace(-0.5, 0.5, 5_000, dtype=np.float32)
    path = written(tmp_path / "a.wav", samples, 22_050, subtype="FLOAT")
    found = load_utterance(path, 1_000, 2_000, 22_050, False)
    np.testing.assert_array_equal(found, samples[1_000:3_000])


def test_channels_are_mixed_to_their_mean(tmp_path):
    stereo = np.stack([np.full(1_000, 0.5), np.full(1_000, -0.1)], axis=1).astype(np.float32)
    path = written(tmp_path / "a.wav", stereo, 22_050, subtype="FLOAT")
    np.testing.assert_allclose(load_utterance(path, 0, 1_000, 22_050, False), 0.2, atol=1e-6)


def test_loudness_is_brought_to_the_peak_and_silence_stays_silence(tmp_path):
    quiet = written(tmp_path / "quiet.wav", tone(22_050, peak=0.01), 22_050)
    silent = written(tmp_path / "silent.wav", np.zeros(4_000, np.float32), 22_050)
    assert np.abs(load_utterance(quiet, 0, 22_050, 22_050, True)).max() == pytest.approx(0.95)
    assert not load_utterance(silent, 0, 4_000, 22_050, True).any()


def test_a_file_that_is_too_short_or_has_another_rate_says_so(tmp_path):
    path = written(tmp_path / "a.wav", tone(22_050), 22_050)
    short = failure_of(path, 10, 22_050, 22_050, True)
    assert "ends after 22050 samples" in str(short) and not short.transient
    other = failure_of(path, 0, 100, 44_100, True)
    assert "22050 Hz" in str(other) and "44100" in str(other) and not other.transient


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rate", [22_050, 44_100, 16_000])
def test_samples_that_are_not_numbers_are_refused_resampled_or_not(tmp_path, bad, rate):
    samples = tone(rate)
    samples[77] = bad
    path = written(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
    error = failure_of(path, 0, rate, rate, True)
    assert "holds samples that are not finite" in str(error) and not error.transient


@pytest.mark.parametrize("content", [b"", b"RIFF", b"not audio at all" * 100])
def test_what_is_not_audio_is_refused_for_good(tmp_path, content):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    assert not failure_of(path, 0, 100, 22_050, True).transient


def test_a_truncated_flac_is_refused(tmp_path):
    path = written(tmp_path / "a.flac", tone(22_050, 3), 22_050)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert not failure_of(path, 0, 3 * 22_050, 22_050, True).transient


def test_what_can_not_be_opened_is_the_system_s_to_name_and_a_folder_or_pipe_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_utterance(tmp_path / "gone.wav", 0, 100, 22_050, True)
    assert not failure_of(tmp_path, 0, 100, 22_050, True).transient
    os.mkfifo(tmp_path / "pipe.wav")
    assert not failure_of(tmp_path / "pipe.wav", 0, 100, 22_050, True).transient


def test_no_file_descriptor_is_left_open(tmp_path):
    good = written(tmp_path / "a.wav", tone(22_050), 22_050)
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"junk")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        load_utterance(good, 0, 100, 22_050, True)
        failure_of(bad, 0, 100, 22_050, True)
        failure_of(good, 0, 100, 16_000, True)
    assert len(os.listdir("/proc/self/fd")) == before
