"""The report, of run directories written here."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from shared.config.settings import Config, DataConfig, RunConfig
from shared.config.toml_file import write_config
from shared.console import report_series
from shared.console.leave_report import leave_report
from shared.console.report import report_page, write_report
from shared.console.report_samples import samples_section
from shared.console.run_story import read_run
from shared.devices.gpus import Gpu, Placement
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.environment import write_environment
from shared.run.event_log import Ended, EventLog, Restarted, Started
from shared.speech.wav import wav_bytes

START_S = 1_700_000_000.0


def step_record(step, time_s, **other):
    return {
        "step": step, "epoch": step // 20, "loss": 3.0 / step, "loss_mel": 2.0 / step,
        "learning_rate": 1e-3, "step_ms": 90.0, "data_wait_ms": 10.0, "queue_depth": 40,
        "data_gpu_busy": 0.6, "model_gpu_busy": [0.9, 0.95], "padding_fraction": 0.1,
        "amount_per_s": 300.0, "unit": "s of audio", "timings_ms": {"decoding": 80.0, "features": 30.0,
        "readers": 2.0}, "waited_for_ms": {"decoding": 8.0, "transport": 1.0}, "time": time_s,
    } | other  # fmt: skip


def log_events(directory, *events):
    log = EventLog(directory.events)
    for event in events:
        log.add(event)
    log.close()


@pytest.fixture
def run(tmp_path):
    """A run of 40 steps that lost a worker, left an utterance out and spoke twice."""
    directory = RunDirectory(tmp_path / "first & last")
    directory.create()
    config = Config(data=DataConfig(train_data="/speech", batch_size=8), run=RunConfig(run_id="x"))
    write_config(config, directory.config)
    records = [step_record(step, START_S + step) for step in range(1, 41)]
    records[5] = step_record(6, START_S + 6, loss=None)  # not finite
    records.insert(20, {"step": 20, "val_loss": 0.5, "val_mel": 0.3, "judged_by": "val_mel"})
    lines = [json.dumps(record) for record in records]
    directory.metrics.write_text("\n".join(lines) + '\n{"step": 41, "lo', encoding="utf-8")
    directory.quarantine.write_text(
        json.dumps(
            {
                "id": "u1",
                "line": 7,
                "path": "wavs/u1.wav",
                "kind": "bad",
                "reason": "<b>cut short</b>",
                "from_batch": 12,
            }
        )
        + "\n"
    )
    log_events(
        directory,
        Started(START_S),
        Restarted(START_S + 20, "data_worker-0", "data_worker-0: killed by SIGKILL", False),
        Ended(START_S + 60, 0, "finished"),
    )
    for step in (20, 40):
        folder = directory.samples / f"step-{step:06d}"
        folder.mkdir(parents=True)
        (folder / "0.wav").write_bytes(wav_bytes(np.zeros(100, np.float32), 22_050))
        (folder / "0.png").write_bytes(b"\x89PNG" + bytes(50))
    return directory


class _Balance(HTMLParser):
    """Finds tags that are left open."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_tells_the_whole_run(run):
    page = write_report(run.path).read_text(encoding="utf-8")
    balance = _Balance()
    balance.feed(page)
    assert balance.open == []
    assert "first &amp; last" in page
    for words in (
        "The two GPUs",
        "Loss",
        "Where the time went",
        "Padding and speed",
        "Samples",
        "Left out: 1",
        "Restarts: 1",
        "Configuration",
        "Devices and versions",
        "Finished.",
        "killed by SIGKILL; starting it again",
        "&lt;b&gt;cut short",
        "data.batch_size",
        "tensorflow",
    ):
        assert words in page, words
    assert page.count("<svg") == 4 and page.count("<audio") == 2 and page.count("<img") == 2
    assert ">readers<" not in page  # a count among the timings is no time


def test_the_report_names_devices_and_versions_of_the_run_not_of_its_writer(run):
    assert "of the machine that wrote this page" in write_report(run.path).read_text("utf-8")
    gpu = Gpu(3, "GeForce", "GPU-aaaa", 24 << 10, 3)
    write_environment(run, Placement(multi_gpu=False, data_gpus=(), model_gpu=gpu))
    found = json.loads(run.environment.read_text())
    found["versions"]["tensorflow"] = "1.0 of old"
    run.environment.write_text(json.dumps(found))
    page = write_report(run.path).read_text("utf-8")
    for words in ("1.0 of old", "GPU 3: GeForce, 24 GB", "model GPU busy", "The two sides"):
        assert words in page, words
    assert "of the machine that wrote" not in page


def test_a_spare_that_took_over_counts_as_a_restart(run):
    log_events(run, Restarted(START_S + 30, "data_worker-0", "data_worker-0: killed", True))
    assert "Restarts: 2" in write_report(run.path).read_text("utf-8")


def test_the_report_says_what_the_run_waited_for_and_what_would_help(run):
    page = write_report(run.path).read_text(encoding="utf-8")
    assert "waiting for: decoding (8% of the time, 10% with all else)" in page
    for words in ("waiting for decoding", "waiting for transport", "waiting for anything else"):
        assert f">{words}<" in page
    run.metrics.write_text(run.metrics.read_text().replace('"waited_for_ms"', '"unheard_of"'))
    page = write_report(run.path).read_text(encoding="utf-8")
    assert ">waiting for data<" in page and "was not logged" in page


def test_the_report_loads_and_runs_nothing(run):
    page = write_report(run.path).read_text(encoding="utf-8")
    assert all(t.startswith(("data:", "#")) for t in re.findall(r'(?:src|href)="([^"]*)"', page))
    assert "<script" not in page and "url(http" not in page and "@import" not in page
    assert "default-src 'none'" in page


def test_pictures_have_the_colours_of_the_page(run):
    page = write_report(run.path).read_text(encoding="utf-8")
    pictures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "var(--model)" in pictures and "var(--data)" in pictures
    assert not re.findall(r"#0[1-9ab]0[1-9ab]0[1-9ab]", pictures)
    assert "prefers-color-scheme: dark" in page


def test_samples_are_the_newest_that_fit(run):
    both = samples_section(run.samples)
    assert both.index("Step 40") < both.index("Step 20")
    one = samples_section(run.samples, most_bytes=400)
    assert "Step 40" in one and "Step 20" not in one and "1 earlier steps" in one
    assert samples_section(run.samples / "none") == ""


def test_what_was_recorded_stands_above_what_is_spoken(run):
    assert "As recorded" not in samples_section(run.samples)
    (run.samples / "recorded").mkdir()
    (run.samples / "recorded" / "0.wav").write_bytes(wav_bytes(np.zeros(9, np.float32), 22_050))
    shown = samples_section(run.samples)
    assert shown.index("As recorded") < shown.index("Step 40") and shown.count("<audio") == 3


def test_a_pause_between_two_starts_takes_no_room(run):
    with open(run.metrics, "a", encoding="utf-8") as file:
        file.write("\n")
        later_s = START_S + 86_400
        file.writelines(json.dumps(step_record(n, later_s + n)) + "\n" for n in range(41, 61))
    story = read_run(run.path)
    assert len(story.steps) == 60 and len(story.pauses_s) == 1
    assert story.clock_s[-1] == pytest.approx(59, abs=2)
    write_report(run.path)


def test_a_short_pause_is_seen_by_the_start_after_it(run):
    last_s = START_S + 40
    log_events(run, Started(last_s + 45))
    with open(run.metrics, "a", encoding="utf-8") as file:
        records = (step_record(n, last_s + 20 + n) for n in range(41, 61))
        file.writelines(json.dumps(record) + "\n" for record in records)
    story = read_run(run.path)
    assert len(story.pauses_s) == 1 and story.clock_s[-1] == pytest.approx(59, abs=2)


def test_no_axis_is_labelled_with_what_only_latex_reads(run):
    wide = (step_record(n, START_S + n) | {"loss": 4.0 * 0.9**n} for n in range(1, 41))
    run.metrics.write_text("".join(json.dumps(record) + "\n" for record in wide))
    page = write_report(run.path).read_text(encoding="utf-8")
    assert "mathdefault" not in page and "0.2" in page


def test_a_run_of_many_steps_makes_no_huge_page(run):
    with open(run.metrics, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(step_record(n, START_S + n)) + "\n" for n in range(1, 5_001))
    assert write_report(run.path).stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "metrics",
    [None, "", "not json\n[1]\n5\n", '{"step": 1, "step_ms": "x", "time": 3, "timings_ms": 4}\n'],
)
def test_a_run_with_no_or_strange_numbers_has_a_report_too(run, metrics):
    run.metrics.unlink()
    if metrics is not None:
        run.metrics.write_text(metrics)
    run.quarantine.unlink()
    run.events.write_bytes(b"\xff\x00" if metrics is None else b'{"kind": "ended"}\n[1]\n')
    run.config.write_text("[unknown]\n")
    page = write_report(run.path).read_text(encoding="utf-8")
    assert "Configuration" in page


def test_what_is_no_run_directory_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="is not a run directory"):
        write_report(tmp_path)


def test_a_report_that_cannot_be_written_is_said_and_nothing_more(run):
    said = []
    (run.path / "report.html").mkdir()
    leave_report(run, said.append)
    assert len(said) == 1 and "was not written" in said[0]
    (run.path / "report.html").rmdir()
    log_events(run, Started(START_S), Ended(START_S + 9, 1, "It broke."))
    leave_report(run, said.append)
    assert "It broke." in (run.path / "report.html").read_text(encoding="utf-8")


def test_a_run_that_goes_on_has_not_ended_whatever_was_before(run):
    assert "Finished." in write_report(run.path).read_text(encoding="utf-8")
    log_events(run, Started(START_S + 90))
    assert "Finished." not in write_report(run.path).read_text(encoding="utf-8")


def test_overfitting_is_named_with_what_helps_and_a_run_that_gains_is_left_in_peace(run):
    assert "no better validation" not in write_report(run.path).read_text("utf-8")
    with open(run.metrics, "a", encoding="utf-8") as metrics:
        metrics.write("\n")
        for step in range(41, 121):
            metrics.write(json.dumps(step_record(step, START_S + step)) + "\n")
            if step % 20 == 0:
                val = {"step": step, "val_loss": 0.5 + step / 100, "val_mel": 0.3 + step / 100}
                metrics.write(json.dumps({**val, "judged_by": "val_mel"}) + "\n")
    page = write_report(run.path).read_text("utf-8")
    assert "Overfitting: no better validation since step 20 (4 in a row)" in page
    assert "--early-stopping 3" in page


def test_each_model_gpu_has_a_line_of_its_own(run):
    others = [{"data_wait_ms": 1.0, "busy": [0.5], "queue_depth": 3}, "not one", {"busy": "none"}]
    records = [step_record(step, START_S + step, other_replicas=others) for step in range(1, 5)]
    run.metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    story = read_run(run.path)
    (_, share), (_, nothing) = report_series.windows_of_others(story)
    assert share.tolist() == [0.5] * 4 and nothing.tolist() == []
    assert "model GPU 1" in report_page(story)
