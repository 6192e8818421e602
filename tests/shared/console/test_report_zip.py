"""The zip of a run's report: what is in it, and what must never be."""

import os
import zipfile

import pytest

from shared.config.settings import Config, DataConfig, RunConfig
from shared.config.toml_file import write_config
from shared.console.report_zip import write_report_zip
from shared.errors import InputError
from shared.run.directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory(tmp_path / "mine")
    directory.create()
    write_config(Config(DataConfig(train_data="x"), run=RunConfig(run_id="x")), directory.config)
    directory.metrics.write_text('{"step": 1}\n')
    os.utime(directory.metrics, (0, 0))
    (directory.samples / "step-000010").mkdir(parents=True)
    (directory.samples / "step-000010" / "0.wav").write_bytes(b"RIFF" + bytes(1000))
    (directory.samples / "step-000010" / "0.png").write_bytes(b"\x89PNG" + bytes(1000))
    directory.checkpoints.mkdir()
    (directory.checkpoints / "weights.safetensors").write_bytes(b"secret")
    directory.index.write_bytes(b"secret")
    (tmp_path / "data_worker.key").write_text("secret")
    (directory.samples / "step-000010" / "link.wav").symlink_to(tmp_path / "data_worker.key")
    return directory


def test_it_holds_the_page_the_numbers_and_the_samples_and_nothing_else(run, tmp_path):
    path = write_report_zip(run.path, tmp_path / "mine.zip")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "mine/report.html", "mine/config.toml", "mine/metrics.jsonl",
            "mine/samples/step-000010/0.png", "mine/samples/step-000010/0.wav",
        ]  # fmt: skip
        assert b"Run mine" in archive.read("mine/report.html")
        assert all(b"secret" not in archive.read(name) for name in archive.namelist())
    assert not (run.path / "report.html").exists()


def test_where_it_can_not_be_written_is_a_sentence_and_nothing_is_left(run, tmp_path):
    with pytest.raises(InputError, match="can't be written"):
        write_report_zip(run.path, tmp_path / "nowhere" / "mine.zip")
    with pytest.raises(InputError, match="is not a run directory"):
        write_report_zip(tmp_path, tmp_path / "mine.zip")
    (tmp_path / "mine.zip").mkdir()
    with pytest.raises(InputError, match="can't be written"):
        write_report_zip(run.path, tmp_path / "mine.zip")
    assert [path.name for path in tmp_path.glob(".*")] == []
