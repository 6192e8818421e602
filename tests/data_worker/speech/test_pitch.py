"""Pitch is right where it is known, and agrees with librosa's pYIN on speech."""

import librosa
import numpy as np
import pytest

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import fill_row, pad_length
from shared.speech.mel import HOP
from shared.speech.text.espeak import Espeak

SENTENCES = (
    "We were away a year ago, and nobody noticed.",
    "Please call Stella, and ask her to bring these things from the store.",
)


@pytest.fixture(scope="module")
def extractor():
    return FeatureExtractor(librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmax=8_000))


def pitch_of(extractor, audio):
    frames = len(audio) // HOP
    row = np.empty((1, pad_length(frames)), np.float32)
    fill_row(row[0], audio.astype(np.float32))
    return extractor(row, np.array([frames], np.int32))[0, :, 81]


def voice(hertz, formants=((600, 80), (1_200, 100), (2_500, 150))):
    """Glottal pulses through a vocal tract; `hertz` (samples,) is the true pitch."""
    phase = np.cumsum(hertz) / 22_050
    audio = np.diff(np.floor(phase), prepend=0.0)
    for centre, width in formants:
        radius = np.exp(-np.pi * width / 22_050)
        a1, a2 = 2 * radius * np.cos(2 * np.pi * centre / 22_050), -radius * radius
        for n in range(2, len(audio)):
            audio[n] += a1 * audio[n - 1] + a2 * audio[n - 2]
    return 0.5 * audio / np.abs(audio).max()


def cents(found, true):
    return 1_200 * np.abs(np.log2(found / true))


@pytest.mark.parametrize("hertz", [65, 80, 113, 160, 220, 311, 400, 480])
def test_a_steady_voice_has_its_pitch(extractor, hertz):
    found = pitch_of(extractor, voice(np.full(22_050, float(hertz))))[4:-4]
    assert (found > 0).mean() > 0.98
    errors = cents(found[found > 0], hertz)
    assert np.median(errors) < 10 and (errors < 50).mean() > 0.98


def test_a_gliding_voice_is_followed_frame_by_frame(extractor):
    true = 150 * 2 ** (0.5 * np.sin(np.arange(44_100) / 7_000))
    found = pitch_of(extractor, voice(true))
    centres = np.arange(len(found)) * HOP + HOP // 2
    voiced = found > 0
    assert voiced[4:-4].mean() > 0.98
    assert np.median(cents(found[voiced], true[centres][voiced])) < 15


def test_noise_is_not_a_voice(extractor):
    noise = np.random.default_rng(0).normal(0, 0.1, 66_150)
    assert (pitch_of(extractor, noise) > 0).mean() < 0.15


def test_the_silence_between_two_voices_is_unvoiced(extractor):
    vowel = voice(np.full(11_025, 140.0))
    quiet = np.random.default_rng(0).normal(0, 1e-5, 11_025)
    found = pitch_of(extractor, np.concatenate([vowel, quiet, vowel]))
    voiced = found > 0
    assert voiced[5:38].all() and not voiced[50:80].any() and voiced[92:124].all()


def test_pitch_and_voicing_agree_with_pyin_on_speech(extractor):
    errors, both, either = [], 0, 0
    for variant in ("", "f2"):
        speaker = Espeak("en-us", variant)
        for sentence in SENTENCES:
            audio = speaker.speak(sentence).astype(np.float32)
            audio *= 0.95 / np.abs(audio).max()
            found = pitch_of(extractor, audio)
            # pYIN's frames, centred where those of the mel are.
            padded = np.pad(audio, (1024 - HOP // 2, 2048), mode="reflect")
            expected, voiced, _ = librosa.pyin(
                padded[: (len(found) - 1) * HOP + 2048],
                fmin=60, fmax=500, sr=22_050, frame_length=2048, hop_length=HOP, center=False,
            )  # fmt: skip
            agreed = voiced & (found > 0)
            errors.append(cents(found[agreed], expected[agreed]))
            both += 2 * agreed.sum()
            either += voiced.sum() + (found > 0).sum()
    assert np.median(np.concatenate(errors)) <= 25
    assert both / either >= 0.9
