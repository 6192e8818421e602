"""check-data on a small corpus with one of everything that can be wrong with a row."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from data_worker.speech.audio_check.heard import listen
from data_worker.speech.data_check.examined import examine_speech
from data_worker.speech.data_check.findings import look_at
from data_worker.speech.data_check.suggestions import _padding, _too_little, suggest
from shared.config.settings import Config, DataConfig, TrainingConfig
from shared.console.data_page import data_page
from shared.console.data_text import _bars, findings_in_words
from shared.devices.gpus import Gpu
from shared.errors import DataError

ROOT = Path(__file__).resolve().parents[4]
RATE = 22_050


def speech_like(seconds=1.2, seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


def make_corpus(root, num_rows=24):
    (root / "wavs").mkdir(parents=True)
    for number in range(num_rows):
        soundfile.write(root / "wavs" / f"u{number}.wav", speech_like(seed=number), RATE)
    return [f"u{number}|Say number {number} now." for number in range(num_rows)]


def write_metadata(root, lines):
    (root / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def bad_corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("bad")
    lines = make_corpus(root)
    wavs = root / "wavs"
    soundfile.write(wavs / "u3.wav", np.clip(8 * speech_like(seed=3), -0.8, 0.8), RATE)
    soundfile.write(wavs / "u4.wav", 0.01 * speech_like(seed=4), RATE)
    gap = np.concatenate([speech_like(0.4, 5), np.zeros(RATE), speech_like(0.4, 55)])
    soundfile.write(wavs / "u5.wav", gap, RATE)
    (wavs / "u7.wav").write_bytes((wavs / "u6.wav").read_bytes())
    lines[8] = "u8|Say number nine."
    lines[9] = "u9|Say  NUMBER nine!"
    lines[10] = "u10|It is a long text that nobody could ever say in just a second or so."
    (wavs / "u11.wav").unlink()
    (wavs / "u12.wav").write_bytes(b"")
    lines[13] = "u13|"
    lines += ["u1|Twice the same id.", "no columns at all"]
    write_metadata(root, lines)
    return root


@pytest.fixture(scope="module")
def findings(bad_corpus):
    return look_at(Config(data=DataConfig(train_data=str(bad_corpus))))


def test_every_row_that_would_not_be_used_is_named_with_its_reason(findings):
    problems = {problem["line"]: problem for problem in findings["problems"]}
    assert sorted(problems) == [12, 13, 14, 25, 26]
    assert all(set(problem) == {"line", "id", "path", "reason"} for problem in problems.values())
    assert problems[12]["id"] == "u11" and "no file" in problems[12]["reason"]
    assert "0 bytes" in problems[13]["reason"]
    assert "text is empty" in problems[14]["reason"]
    assert "line 2" in problems[25]["reason"]
    assert findings["summary"]["usable"] == 21 and findings["summary"]["bad"] == 5


@pytest.mark.parametrize(
    ("kind", "name"),
    [("clipping", "u3"), ("near-silence", "u4"), ("mostly silence", "u5"),
     ("duplicate audio", "u7"), ("duplicate text", "u9"), ("text and duration", "u10")],
)  # fmt: skip
def test_a_row_worth_a_look_is_named(findings, kind, name):
    named = [
        outlier["id"] for outlier in findings["summary"]["outliers"] if outlier["kind"] == kind
    ]
    assert name in named
    if kind != "text and duration":  # the long pause is one of those too
        assert named == [name]


def test_counts_add_up(findings):
    summary = findings["summary"]
    assert summary["train"] + summary["validation"] == summary["usable"]
    for name in ("duration_histogram", "characters_per_second_histogram"):
        histogram = summary[name]
        assert sum(histogram["counts"]) == summary["usable"]
        assert len(histogram["edges"]) == len(histogram["counts"]) + 1
    buckets = summary["suggestion"]["buckets"]
    assert sum(bucket["utterances"] for bucket in buckets) == summary["train"]
    assert summary["symbols"][0]["count"] >= summary["symbols"][-1]["count"] > 0
    assert summary["trainable"] and "max_bad_fraction" in summary["refusal"]
    assert summary["refusal"].endswith("allow more with --max-bad-fraction 0.2.")


def test_little_speech_and_much_padding_are_said(findings):
    remarks = " ".join(findings["summary"]["suggestion"]["remarks"])
    assert "minutes to train on are enough to try it out" in remarks
    assert remarks in " ".join(" ".join(findings_in_words(findings, 80)).split())
    assert _padding(32, {"padding_fraction": 0.4}, {"padding_fraction": 0.1})
    assert not _padding(32, {"padding_fraction": 0.4}, {"padding_fraction": 0.3})
    assert not _padding(32, {"padding_fraction": 0.05}, {"padding_fraction": 0.0})
    assert not _too_little(1.0)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_text_fits_the_terminal_and_loses_nothing(findings, width):
    lines = findings_in_words(findings, width)
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for problem in findings["problems"]:
        assert f"line {problem['line']}, {problem['id']}" in words


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ([1, 2, 3], ["1–2", "2–3"]),
        ([0.5, 1.0, 1.5], ["0.5–1.0", "1.0–1.5"]),
        ([1.36, 1.38, 1.4], ["1.36–1.38", "1.38–1.40"]),
        ([1.36, 1.362, 1.364], ["1.360–1.362", "1.362–1.364"]),
        ([0.36, 0.3605, 0.361], ["0.3600–0.3605", "0.3605–0.3610"]),
    ],
)
def test_the_edges_of_a_bar_differ(edges, labels):
    lines = _bars({"edges": edges, "counts": [1, 2], "last_is_open": False}, 80)
    assert [line.split()[0] for line in lines] == labels


def test_the_page_needs_no_network_and_shows_data_as_text_only(findings):
    problems = [
        *findings["problems"],
        {"line": 1, "id": "<script>alert(1)</script>", "path": "x", "reason": "&"},
    ]
    page = data_page({"problems": problems, "summary": findings["summary"]})
    assert "<script" not in page and "&lt;script&gt;" in page
    assert all(target.startswith(("data:", "#")) for target in _targets(page))
    assert page.count("<svg") == 3
    assert "prefers-color-scheme: dark" in page


def _targets(page):
    return re.findall(r'(?:src|href)="([^"]*)"', page)


def test_a_gpu_with_little_memory_gets_small_batches(bad_corpus, findings):
    config = Config(data=DataConfig(train_data=str(bad_corpus)), training=TrainingConfig(seed=1))
    examined = examine_speech(config)
    split = np.zeros(len(examined.rows), np.uint8)
    small, large = (
        suggest(examined, split, config.data, [Gpu(0, "a GPU", "GPU-0", memory_mb, 0)])
        for memory_mb in (8_000, 24_500)
    )
    assert (small["batch_size"], small["buffer_size"]) == (16, 25)
    assert (large["batch_size"], large["buffer_size"]) == (48, 100)


def test_loud_speech_is_not_taken_for_clipping():
    loud = speech_like(seed=1)
    heard = listen(loud / np.abs(loud).max(), 0, len(loud), RATE)
    assert heard.peak == 1.0 and heard.clipped_samples == 0


def check_data(*arguments):
    return subprocess.run(
        [sys.executable, "launcher.py", "check-data", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_json_is_all_there_is_on_standard_output(bad_corpus, tmp_path):
    page = tmp_path / "page.html"
    done = check_data("--train-data", bad_corpus, "--json", "--html", page)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"problems", "summary"} and len(found["problems"]) == 5
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_sound_data_set_is_exit_0(tmp_path):
    write_metadata(tmp_path / "data", make_corpus(tmp_path / "data", 6))
    done = check_data("--train-data", tmp_path / "data")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 6 rows can be used" in done.stdout and "\x1b" not in done.stdout


def test_a_data_set_of_which_nothing_can_be_used_is_exit_1_with_every_row_named(tmp_path):
    (tmp_path / "data").mkdir()
    write_metadata(tmp_path / "data", ["a|Gone.", "b|Gone too."])
    done = check_data("--train-data", tmp_path / "data", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert len(found["problems"]) == 2 and not found["summary"]["trainable"]


def test_what_is_no_data_set_is_one_sentence_and_exit_2(tmp_path):
    with pytest.raises(DataError):
        look_at(Config(data=DataConfig(train_data=str(tmp_path))))
    done = check_data("--train-data", tmp_path, "--json")
    assert done.returncode == 2 and done.stderr.startswith("❌")
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["summary"]["refusal"]
