"""Every kind of file that a data set was ever found to hold, and what becomes of it."""

import os
import socket
import struct

import numpy as np
import pytest
import soundfile

from data_worker.speech.audio_check.probe import ProbeSettings, Unusable, probe, trim

RATE = 22_050
DECODE = ProbeSettings(True, 0.3, 15.0, True, 50.0)
HEADERS = DECODE._replace(decode=False)


def tone(seconds=1.0, rate=RATE, channels=1):
    """A loud tone, float32 (samples, channels)."""
    time_s = np.arange(round(seconds * rate)) / rate
    return np.repeat((0.5 * np.sin(2 * np.pi * 220 * time_s))[:, None], channels, 1).astype("f4")


def wav(path, seconds=1.0, rate=RATE, channels=1, **options):
    soundfile.write(path, tone(seconds, rate, channels), rate, **options)
    return path


def refusal(root, name, settings=DECODE):
    with pytest.raises(Unusable) as caught:
        probe(str(root), name, settings)
    assert "\n" not in caught.value.reason and len(caught.value.reason) < 300
    return caught.value.kind, caught.value.reason


@pytest.mark.parametrize(
    "name, options",
    [
        ("a.wav", {"subtype": "PCM_U8"}),
        ("a.wav", {"subtype": "PCM_16"}),
        ("a.wav", {"subtype": "PCM_24"}),
        ("a.wav", {"subtype": "PCM_32"}),
        ("a.wav", {"subtype": "FLOAT"}),
        ("a.wav", {"subtype": "ULAW"}),
        ("a.flac", {}),
        ("a.mp3", {}),
        ("a.ogg", {"format": "OGG", "subtype": "VORBIS"}),
        ("a.wav", {"format": "WAVEX"}),
        ("a.wav", {"format": "RF64"}),
        ("a.aiff", {}),
    ],
)
def test_every_common_format_is_read(tmp_path, name, options):
    wav(tmp_path / name, **options)
    found = probe(str(tmp_path), name, DECODE)
    assert found.sample_rate == RATE
    assert abs(found.num_samples - RATE) < 2_500
    assert found.file_size == os.path.getsize(tmp_path / name)
    assert probe(str(tmp_path), name, HEADERS).num_channels == 1


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100, 48_000, 96_000])
def test_every_common_rate_is_read(tmp_path, rate):
    wav(tmp_path / "a.wav", rate=rate)
    assert probe(str(tmp_path), "a.wav", DECODE).sample_rate == rate


def test_opus_is_read(tmp_path):
    wav(tmp_path / "a.opus", rate=48_000, format="OGG", subtype="OPUS")
    assert probe(str(tmp_path), "a.opus", DECODE).sample_rate == 48_000


def test_stereo_is_read_and_sixty_four_channels_are_not(tmp_path):
    wav(tmp_path / "two.wav", channels=2)
    wav(tmp_path / "many.wav", channels=64)
    assert probe(str(tmp_path), "two.wav", DECODE).num_channels == 2
    assert refusal(tmp_path, "many.wav") == ("bad", "it has 64 channels; expected 1 to 16")


def test_an_mp3_named_wav_is_read(tmp_path):
    wav(tmp_path / "a.mp3")
    os.rename(tmp_path / "a.mp3", tmp_path / "a.wav")
    assert probe(str(tmp_path), "a.wav", DECODE).sample_rate == RATE


def test_a_file_without_bytes_is_bad(tmp_path):
    (tmp_path / "a.wav").touch()
    assert refusal(tmp_path, "a.wav") == ("bad", "is empty (0 bytes)")


def test_a_header_without_audio_is_bad(tmp_path):
    wav(tmp_path / "a.wav", seconds=0)
    (tmp_path / "b.wav").write_bytes((wav(tmp_path / "c.wav")).read_bytes()[:44])
    assert refusal(tmp_path, "a.wav") == ("bad", "it has a header and no audio")
    assert "cut short" in refusal(tmp_path, "b.wav")[1]


@pytest.mark.parametrize("settings", [DECODE, HEADERS])
def test_a_wav_longer_than_its_file_is_bad_although_libraries_read_it(tmp_path, settings):
    whole = wav(tmp_path / "whole.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:-2])
    kind, reason = refusal(tmp_path, "cut.wav", settings)
    assert kind == "bad" and "44,100 bytes" in reason and "44,098" in reason


@pytest.mark.parametrize("settings", [DECODE, HEADERS])
def test_a_header_claiming_four_gigabytes_is_bad(tmp_path, settings):
    raw = bytearray(wav(tmp_path / "a.wav").read_bytes())
    raw[40:44] = struct.pack("<I", 0xFFFFFFFE)
    (tmp_path / "a.wav").write_bytes(raw)
    assert "4,294,967,294" in refusal(tmp_path, "a.wav", settings)[1]


def test_a_flac_cut_short_is_bad(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.random.default_rng(0).normal(0, 0.1, RATE), RATE)
    (tmp_path / "a.flac").write_bytes((tmp_path / "a.flac").read_bytes()[:-20_000])
    assert refusal(tmp_path, "a.flac")[0] == "bad"


def test_a_flac_with_flipped_bits_is_bad_or_read_but_never_a_crash(tmp_path):
    raw = bytearray(wav(tmp_path / "a.flac").read_bytes())
    generator = np.random.default_rng(1)
    for _ in range(100):
        damaged = bytearray(raw)
        for at in generator.integers(0, len(raw), 8):
            damaged[at] ^= 1 << int(generator.integers(8))
        (tmp_path / "b.flac").write_bytes(damaged)
        try:
            probe(str(tmp_path), "b.flac", DECODE)
        except Unusable:
            pass


def test_a_wav_with_flipped_header_bits_is_bad_or_read_but_never_a_crash(tmp_path):
    raw = wav(tmp_path / "a.wav").read_bytes()
    for bit in range(44 * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << (bit % 8)
        (tmp_path / "b.wav").write_bytes(damaged)
        try:
            probe(str(tmp_path), "b.wav", DECODE)
        except Unusable:
            pass


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_numbers_are_bad(tmp_path, value):
    samples = tone()
    samples[1_000] = value
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    assert "not numbers" in refusal(tmp_path, "a.wav")[1]


def test_zero_hertz_is_bad(tmp_path):
    raw = bytearray(wav(tmp_path / "a.wav").read_bytes())
    raw[24:28] = bytes(4)
    (tmp_path / "a.wav").write_bytes(raw)
    assert refusal(tmp_path, "a.wav")[0] == "bad"


@pytest.mark.parametrize("level", [0.0, 0.5, 1e-5])
def test_silence_is_bad(tmp_path, level):
    soundfile.write(tmp_path / "a.wav", np.full(RATE, level), RATE, subtype="FLOAT")
    assert refusal(tmp_path, "a.wav") == ("bad", "it holds only silence")


def test_too_short_and_too_long_are_filtered_not_bad(tmp_path):
    soundfile.write(tmp_path / "one.wav", np.array([0.5]), RATE)
    wav(tmp_path / "short.wav", seconds=0.2)
    wav(tmp_path / "long.wav", seconds=16)
    assert refusal(tmp_path, "one.wav")[0] == "filtered"
    assert refusal(tmp_path, "short.wav") == ("filtered", "too short: 0.20 s, min_seconds is 0.3")
    assert refusal(tmp_path, "long.wav") == ("filtered", "too long: 16.00 s, max_seconds is 15")
    assert refusal(tmp_path, "long.wav", HEADERS)[0] == "filtered"


def test_ten_hours_are_filtered_without_being_decoded(tmp_path):
    num_samples = 10 * 3600 * 8_000
    header = (
        b"RIFF"
        + struct.pack("<I", 36 + num_samples)
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8_000, 8_000, 1, 8)
        + b"data"
        + struct.pack("<I", num_samples)
    )
    with open(tmp_path / "a.wav", "wb") as file:
        file.write(header)
        file.truncate(44 + num_samples)
    assert refusal(tmp_path, "a.wav") == ("filtered", "too long: 36,000.00 s, max_seconds is 15")


def test_mode_000_is_bad_even_for_root(tmp_path):
    wav(tmp_path / "a.wav").chmod(0)
    assert refusal(tmp_path, "a.wav")[0] == "bad"


def test_what_is_no_file_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo.wav")
    os.mkdir(tmp_path / "folder.wav")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            server.bind("socket.wav")
        finally:
            os.chdir(here)
        assert refusal(tmp_path, "fifo.wav") == ("bad", "is a FIFO, not an audio file")
        assert refusal(tmp_path, "folder.wav") == ("bad", "is a folder, not an audio file")
        assert refusal(tmp_path, "socket.wav") == ("bad", "is a socket, not an audio file")


def test_nothing_outside_the_data_folder_is_read(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    wav(tmp_path / "secret.wav")
    os.symlink(tmp_path / "secret.wav", data / "link.wav")
    os.symlink(tmp_path, data / "door")
    for name in ("link.wav", "../secret.wav", "door/secret.wav", str(tmp_path / "secret.wav")):
        kind, reason = refusal(data, name)
        assert kind == "bad" and "leads out of the data folder" in reason


def test_a_link_inside_the_data_folder_is_followed(tmp_path):
    wav(tmp_path / "a.wav")
    os.symlink("a.wav", tmp_path / "b.wav")
    assert probe(str(tmp_path), "b.wav", DECODE).sample_rate == RATE


@pytest.mark.parametrize("name", ["gone.wav", "a\0b.wav", "x" * 300 + ".wav", "gone/a.wav"])
def test_a_name_that_leads_nowhere_is_bad(tmp_path, name):
    assert refusal(tmp_path, name)[0] == "bad"


def test_links_in_a_circle_are_bad(tmp_path):
    os.symlink("b.wav", tmp_path / "a.wav")
    os.symlink("a.wav", tmp_path / "b.wav")
    assert refusal(tmp_path, "a.wav")[0] == "bad"


def test_text_named_wav_is_bad(tmp_path):
    (tmp_path / "a.wav").write_text("This is not audio.\n" * 100)
    assert refusal(tmp_path, "a.wav")[0] == "bad"


def test_silence_at_both_ends_is_trimmed_to_fifty_milliseconds(tmp_path):
    quiet = np.random.default_rng(0).normal(0, 1e-4, (RATE // 2, 1))
    soundfile.write(tmp_path / "a.wav", np.concatenate([quiet, tone(), quiet]), RATE)
    found = probe(str(tmp_path), "a.wav", DECODE)
    assert abs(found.start - (RATE // 2 - 0.05 * RATE)) <= 0.011 * RATE
    assert abs(found.num_samples - 1.1 * RATE) <= 0.022 * RATE
    untrimmed = probe(str(tmp_path), "a.wav", DECODE._replace(trim_silence=False))
    assert (untrimmed.start, untrimmed.num_samples) == (0, 2 * RATE // 2 + RATE)


def test_a_clip_is_measured_after_its_silence_is_cut(tmp_path):
    silence = np.zeros((8 * RATE, 1))
    soundfile.write(tmp_path / "a.wav", np.concatenate([silence, tone(), silence]), RATE)
    assert probe(str(tmp_path), "a.wav", DECODE).num_samples < 1.2 * RATE
    assert refusal(tmp_path, "a.wav", DECODE._replace(trim_silence=False))[0] == "filtered"


def test_trimming_leaves_a_clip_without_silence_whole():
    assert trim(tone()[:, 0], RATE, 50.0) == (0, RATE)
    assert trim(tone(0.005)[:, 0], RATE, 50.0) == (0, 110)
