"""What the rules of reading make of a corpus' texts is part of what its index is, and of no other's."""

import numpy as np
import pytest
import soundfile

from data_worker.preparation.prepare import prepare
from data_worker.speech import index_content
from data_worker.speech.recordings import Recordings
from shared.config.settings import Config, DataConfig
from shared.speech.text.reading.reader import VERSION

RATE = 22_050
PLAIN = [
    f"The {animal} sat by the river." for animal in ("cat", "dog", "cow", "horse", "owl", "fox")
]
NUMBERS = [*PLAIN[:-1], "It cost $5 in 1984."]


@pytest.fixture
def index_of(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))

    def make(name, texts):
        root = tmp_path / name
        (root / "wavs").mkdir(parents=True, exist_ok=True)
        for number in range(len(texts)):
            clip = root / "wavs" / f"u{number}.wav"
            if not clip.exists():
                noise = np.random.default_rng(number).normal(0, 0.1, 2 * RATE).astype(np.float32)
                soundfile.write(clip, noise, RATE)
        lines = [f"u{number}|{text}" for number, text in enumerate(texts)]
        (root / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return prepare(Config(data=DataConfig(train_data=str(root))), tmp_path / f"{name}.index")

    return make


def test_an_index_names_the_rules_only_where_they_have_said_something(index_of):
    assert "reading" not in index_of("plain", PLAIN).text
    assert index_of("numbers", NUMBERS).text["reading"] == VERSION


def test_other_rules_make_another_index_of_a_text_that_they_read(index_of, monkeypatch):
    plain, numbers = index_of("plain", PLAIN), index_of("numbers", NUMBERS)
    monkeypatch.setattr(index_content, "VERSION", VERSION + 1)
    monkeypatch.setattr(Recordings, "same_index", "recordings, other rules")
    assert index_of("plain", PLAIN).fingerprint == plain.fingerprint
    assert index_of("numbers", NUMBERS).fingerprint != numbers.fingerprint


def test_an_index_that_other_rules_made_is_not_taken_from_the_cache(index_of, monkeypatch):
    assert index_of("numbers", NUMBERS).preparation["cached"] is False
    assert index_of("numbers", NUMBERS).preparation["cached"] is True
    assert f"reading {VERSION}" in Recordings.same_index
    of_others = Recordings.same_index.replace(f"reading {VERSION}", "reading 0")
    monkeypatch.setattr(Recordings, "same_index", of_others)
    assert index_of("numbers", NUMBERS).preparation["cached"] is False
