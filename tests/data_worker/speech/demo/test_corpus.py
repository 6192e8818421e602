"""The demo corpus: sentences of our own in several voices, made in seconds."""

import subprocess
import sys

import pytest
import soundfile

from data_worker.speech.demo.corpus import main, make_demo_corpus
from data_worker.speech.demo.sentences import demo_sentences
from data_worker.speech.formats.recognise import look, parse
from shared.errors import InputError


def test_sentences_are_varied_and_of_natural_length():
    sentences = demo_sentences(600)
    assert len(set(sentences)) == 600
    lengths = [len(sentence.split()) for sentence in sentences]
    assert min(lengths) >= 4 and max(lengths) <= 14
    words = {word.strip(".,;!?").lower() for sentence in sentences for word in sentence.split()}
    assert len(words) > 300
    assert all(sentence[0].isupper() and sentence[-1] in ".?!" for sentence in sentences)
    assert not any("{" in sentence or "|" in sentence for sentence in sentences)


def test_sentences_are_the_same_for_the_same_seed():
    assert demo_sentences(50, 3) == demo_sentences(50, 3) != demo_sentences(50, 4)
    assert demo_sentences(100)[:50] == demo_sentences(50)
    assert len(demo_sentences(10_000)) == 10_000


def test_the_corpus_is_found_and_read_as_it_was_meant(tmp_path):
    make_demo_corpus(tmp_path, num_utterances=9, num_voices=3)
    parsed = parse(look(str(tmp_path), "auto", 0))
    assert parsed.format == "path-speaker-text" and not parsed.left_out
    assert [row.speaker for row in parsed.rows] == ["ben", "anna", "carl"] * 3
    assert [row.text for row in parsed.rows] == demo_sentences(9)
    for row in parsed.rows:
        information = soundfile.info(tmp_path / row.path)
        assert (information.samplerate, information.channels) == (22_050, 1)
        assert 0.8 < information.duration < 8


def test_the_program_makes_the_same_corpus_twice_byte_for_byte(tmp_path):
    for name in ("a", "b"):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "data_worker.speech.demo.corpus",
                "--out",
                tmp_path / name,
                "--num",
                "4",
                "--voices",
                "2",
            ],
            check=True,
            timeout=60,
        )
    files = sorted((tmp_path / "a").rglob("*.*"))
    assert len(files) == 5
    for file in files:
        twin = tmp_path / "b" / file.relative_to(tmp_path / "a")
        assert file.read_bytes() == twin.read_bytes()


@pytest.mark.parametrize("options", [{"num_voices": 0}, {"num_voices": 99}, {"num_utterances": 0}])
def test_impossible_counts_are_refused(tmp_path, options):
    with pytest.raises(InputError, match="--"):
        make_demo_corpus(tmp_path, **options)


def test_the_program_says_where_the_corpus_is_and_what_is_wrong(tmp_path, capsys):
    assert main(["--out", str(tmp_path), "--num", "2", "--voices", "1"]) == 0
    assert str(tmp_path / "metadata.csv") in capsys.readouterr().out
    (tmp_path / "file").touch()
    assert main(["--out", str(tmp_path / "file"), "--num", "2"]) == 2
    assert "can't be written" in capsys.readouterr().err
