"""Runs that are watched, listed and stopped from other shells."""

import json
import re
import shutil
import signal
import sys
import urllib.request
import zipfile

from documents import documented, the_documented


def a_free_port(words):
    """The command with any free port in the place of its own."""
    return ["0" if word.isdecimal() else word for word in words]


def read(page, what):
    """Something behind the link that a page's command has printed."""
    page.wait_for_text("Ctrl-C ends the page")
    (link,) = re.findall(r"http://\S+:\d+/\S+/", page.text)
    with urllib.request.urlopen(link + what, timeout=60) as answer:
        return answer.read()


def test_a_run_is_watched_by_many_and_stopped_from_elsewhere(checkout):
    run = checkout.launch("runs/mine", "--max-steps", "100000")
    checkout.wait_for_step(run, "runs/mine", 2)
    (listing,) = [words for words in documented("runs") if "--json" not in words]
    listed = checkout.documented(listing)
    in_shells = [words for words in documented("watch") if "--web" not in words]
    watches = [checkout.documented(words) for words in in_shells]
    pages = [checkout.documented(a_free_port(words)) for words in documented("watch", "--web")]
    leaving = checkout.documented(in_shells[0])
    assert listed.wait() == 0 and "training" in listed.text
    for watch in (*watches, leaving):
        watch.wait_for_text("Model training starting now")
    for page in pages:
        now = json.loads(read(page, "now?run=0"))
        assert now["title"] == "Run mine" and "training" in now["fragments"]["state"]
    for each, words in (
        (leaving, "The run goes on"),
        *((page, "the runs go on") for page in pages),
    ):
        each.signal(signal.SIGINT)
        assert each.wait() == 0 and words in each.text
    plain, in_json = documented("stop")
    stop = checkout.documented(plain)
    assert stop.wait() == 0, stop.text
    assert "SIGTERM: finishing the step and saving" in stop.text
    assert "Interrupted; the checkpoint is saved" in stop.text.splitlines()[-2]
    assert run.wait(10) == 130
    for watch in watches:
        assert watch.wait(20) == 0, watch.text
    in_words, as_objects = (watch.text for watch in watches)
    assert "Interrupted; the checkpoint is saved" in in_words.splitlines()[-2]
    objects = [json.loads(line) for line in as_objects.splitlines()]
    assert objects[0]["state"] == "training" and objects[-1]["state"] == "interrupted"
    assert {lane["worker"] for lane in objects[0]["status"]["lanes"]} == {
        "data_worker-0", "model_worker",
    }  # fmt: skip
    again, listed = checkout.documented(in_json), checkout.documented([*listing, "--json"])
    assert again.wait() == 2 and "there is nothing to stop" in again.text
    assert listed.wait() == 0
    (found,) = json.loads(listed.text)["runs"]
    assert found["state"] == "interrupted" and found["step"] >= 2 and found["disk_bytes"] > 100_000


def test_what_is_started_by_hand_can_be_watched_and_stopped(checkout):
    prepare = the_documented("train", "--prepare-only")
    assert checkout.documented(prepare, *checkout.settings).wait() == 0
    listed = checkout.documented(the_documented("runs"))
    assert listed.wait() == 0 and "prepared" in listed.text
    by_hand = [word for word in the_documented("model_worker") if not word.startswith("--listen")]
    model = checkout.documented(by_hand)
    data = checkout.documented(the_documented("data_worker"))
    checkout.wait_for_step(model, "runs/mine", 1)
    watch = checkout.documented(next(w for w in documented("watch") if "--web" not in w))
    watch.wait_for_text("step ")
    stop = checkout.documented(the_documented("stop", "--json"))
    assert stop.wait() == 0, stop.text
    found = json.loads(stop.text.splitlines()[-1])
    assert (found["state"], found["exit_code"]) == ("interrupted", 130)
    assert model.wait(10) == 130 and watch.wait(20) == 0
    assert data.wait(20) in (0, 130)
    again = checkout.documented(by_hand)  # and stopped before it has anything to save
    shown = checkout.folder / "runs/mine/status.json"
    checkout.wait_until(lambda: f'"pid": {again.pid},' in shown.read_text(), "its status")
    stop = checkout.documented(the_documented("stop"))
    assert stop.wait() == 0 and "Interrupted" in stop.text.splitlines()[-2], stop.text
    assert again.wait(10) == 130


TRACKS = """
import sys
for line in sys.stdin:
    open("told.jsonl", "a").write(line)
"""


def test_a_run_and_its_data_are_moved_and_it_goes_on_and_tells_a_command(checkout, undisturbed):
    where = checkout.folder
    shutil.copytree(undisturbed.folder / "run", where / "moved" / "renamed")
    voice = where / "moved" / "voice"
    shutil.copytree(checkout.corpus, voice)
    report = checkout.documented(the_documented("report", "--zip"))
    assert (
        report.wait() == 2 and "is not a run directory" in report.text
    )  # it is not there any more
    moved = [
        word.replace("runs/mine", "moved/renamed") for word in the_documented("report", "--zip")
    ]
    report = checkout.documented(moved)
    assert report.wait() == 0, report.text
    with zipfile.ZipFile(where / "mine.zip") as archive:
        names = archive.namelist()
        assert "renamed/report.html" in names and any(name.endswith(".wav") for name in names)
        for name in ("renamed/report.html", "renamed/config.toml"):
            text = archive.read(name).decode()
            assert str(undisturbed.folder) not in text, name
    (where / "track.py").write_text(TRACKS)
    words = the_documented("train", "--on-event")
    hook = ["--on-event", f"{sys.executable} track.py"]
    again = checkout.documented(
        ["python", "launcher.py", "--run-dir", "moved/renamed", "--train-data", "moved/voice"],
        "--max-steps", "16", "--samples", "0", *hook,
    )  # fmt: skip
    assert "--on-event" in words and again.wait() == 0, again.text
    assert "Continuing moved/renamed" in again.text
    assert str(voice) in (where / "moved/renamed/config.toml").read_text()
    told = [json.loads(line) for line in (where / "told.jsonl").read_text().splitlines()]
    assert told[0]["kind"] == "started" and told[0]["settings"]["data"]["batch_size"] == 6
    assert told[0]["run"] == "renamed" and told[-1] | {"time_s": 0} == {
        "kind": "ended", "time_s": 0, "run": "renamed", "run_dir": str(where / "moved/renamed"),
        "exit_code": 0, "cause": "finished",
    }  # fmt: skip
    steps = [event["record"]["step"] for event in told if event["kind"] == "step"]
    assert steps == [15, 16] and "validation" in {event["kind"] for event in told}
    speak = checkout.documented(
        [
            "python",
            "launcher.py",
            "speak",
            "--run",
            "moved/renamed",
            "--text",
            "Hello.",
            "--out",
            "x.wav",
        ]
    )
    assert speak.wait() == 0, speak.text
    assert (where / "x.wav").stat().st_size > 1000
