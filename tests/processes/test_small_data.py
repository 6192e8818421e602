"""The smallest corpora, with the batch size and everything else left as it is by default."""

import shutil
from pathlib import Path

FLAGS = ("--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny")


def first_rows(corpus: Path, folder: Path, num_rows: int) -> Path:
    """A copy of the corpus's beginning."""
    lines = (corpus / "metadata.csv").read_text("utf-8").splitlines()
    folder.mkdir()
    (folder / "metadata.csv").write_text("\n".join(lines[:num_rows]) + "\n", "utf-8")
    shutil.copytree(corpus / "wavs", folder / "wavs")
    return folder


def test_thirty_utterances_named_by_their_metadata_file_train(runs, small_corpus):
    data = first_rows(small_corpus, runs.folder / "data", 30) / "metadata.csv"
    run = str(runs.folder / "run")
    command = runs.python(
        "launcher.py", "--train-data", str(data), "--run-dir", run, *FLAGS, "--max-steps", "3"
    )
    assert command.wait() == 0, command.text + runs.logs("run")
    assert [record["step"] for record in runs.metrics("run") if "val_loss" in record] == [3]
    assert "Traceback" not in command.text + runs.logs("run")
    # The same command on a run that has all its steps ends well, and changes nothing.
    weights = runs.weights("run")
    again = runs.python("launcher.py", "--run-dir", run)
    assert again.wait() == 0, again.text + runs.logs("run")
    assert "Its 3 steps are trained already" in again.text
    assert runs.weights("run") == weights


def test_one_utterance_is_refused_with_a_sentence(runs, small_corpus):
    data = first_rows(small_corpus, runs.folder / "data", 1)
    command = runs.python(
        "launcher.py", "--train-data", str(data), "--run-dir", str(runs.folder / "run"), *FLAGS
    )
    assert command.wait() == 2, command.text
    assert "❌ " in command.text and "one more is needed to validate on" in command.text
    assert "Traceback" not in command.text
