"""The smallest corpora, with the batch size and everything else left as it is by default."""

import shutil
import unicodedata
from pathlib import Path

from documents import the_documented

FLAGS = ("--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny")


def first_rows(corpus: Path, folder: Path, num_rows: int) -> Path:
    """A copy of the corpus's beginning."""
    lines = (corpus / "metadata.csv").read_text("utf-8").splitlines()
    folder.mkdir()
    (folder / "metadata.csv").write_text("\n".join(lines[:num_rows]) + "\n", "utf-8")
    shutil.copytree(corpus / "wavs", folder / "wavs")
    return folder


def columns_of(line: str) -> int:
    """As many as a terminal takes for it."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in line)
    return len(line) + wide - line.count("\N{VARIATION SELECTOR-16}")


def assert_narrow(text: str) -> None:
    """No line of a plain run is wider than what people read with ease, and few terminals are."""
    lines = text.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if columns_of(line) > 100] == []


def test_thirty_utterances_named_by_their_metadata_file_train(checkout, small_corpus):
    first_rows(small_corpus, checkout.folder / "data", 30)
    data = "data/metadata.csv"
    words, run = the_documented("train", "--run-dir", "--max-minutes"), "runs/mine"
    more = ("--train-data", data, "--model-size", "tiny", "--max-steps", "3")
    command = checkout.documented(words, *more)
    assert command.wait() == 0, command.text + checkout.logs(run)
    assert [record["step"] for record in checkout.metrics(run) if "val_loss" in record] == [3]
    assert "Traceback" not in command.text + checkout.logs(run)
    assert_narrow(command.text)
    # The same command on a run that has all its steps ends well, and changes nothing.
    weights = checkout.weights(run)
    again = checkout.documented(words, *more)
    assert again.wait() == 0, again.text + checkout.logs(run)
    assert "Its 3 steps are trained already" in again.text
    assert_narrow(again.text)
    assert checkout.weights(run) == weights


def test_one_utterance_is_refused_with_a_sentence(runs, small_corpus):
    data = first_rows(small_corpus, runs.folder / "data", 1)
    command = runs.python(
        "launcher.py", "--train-data", str(data), "--run-dir", str(runs.folder / "run"), *FLAGS
    )
    assert command.wait() == 2, command.text
    assert "❌ " in command.text and "one more is needed to validate on" in command.text
    assert "Traceback" not in command.text
