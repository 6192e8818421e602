"""The page as it is served: its addresses over HTTP, runs that change, and what nobody may have."""

import http.client
import json
import os
import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

from shared.config.settings import Config, DataConfig, RunConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.console.web.live_runs import Kept, LiveRun
from shared.console.web.serve import LOOPBACK, is_loopback, page_server
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, Started
from shared.run.typed_lines import encode
from shared.speech.wav import wav_bytes
from shared.status.status_keeper import StatusKeeper
from shared.worker.reports import Busy, Metrics, Outlook

START_S = 1_700_000_000.0
OUTLOOK = Outlook(0.5, 10.0, 200, False, 100.0, 2.0, "waiting for: <decoding>", True)


def record(step, **other):
    return {
        "step": step, "epoch": 0, "loss": 3.0 / step, "loss_mel": 2.0 / step, "step_ms": 90.0,
        "data_wait_ms": 1.0, "queue_depth": 4, "data_gpu_busy": 0.5, "model_gpu_busy": [0.9],
        "padding_fraction": 0.1, "amount_per_s": 30.0, "unit": "s of audio", "timings_ms": {},
        "waited_for_ms": {"decoding": 1.0}, "time": START_S + step,
    } | other  # fmt: skip


def make_run(path, num_steps=30, **training):
    directory = RunDirectory(path)
    directory.create()
    config = Config(DataConfig(train_data="/data"), training=TrainingConfig(**training),
                    run=RunConfig(run_id=path.name))  # fmt: skip
    write_config(config, directory.config)
    records = [record(step) for step in range(1, num_steps + 1)]
    records[3]["loss"] = None
    records.append({"step": num_steps, "val_loss": 0.5, "judged_by": "val_loss"})
    directory.metrics.write_text("".join(json.dumps(each) + "\n" for each in records))
    for group in ("recorded", "step-000010", "step-000030"):
        (directory.samples / group).mkdir(parents=True)
        sound = wav_bytes(np.zeros(100, np.float32), 22_050)
        (directory.samples / group / "0 é.wav").write_bytes(sound)
    EventLog(directory.events).add(Started(START_S))
    EventLog(directory.events).add(Ended(START_S + 60, 0, "finished"))
    return directory


class Page:
    def __init__(self, *paths):
        self.server, self.link = page_server(paths, LOOPBACK, 0)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()
        self.token = urlsplit(self.link).path

    def ask(self, what, method="GET", whole=False, **headers):
        connection = http.client.HTTPConnection(LOOPBACK, self.server.server_port, timeout=20)
        connection.request(method, what if whole else self.token + what, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def json(self, what):
        answer, content = self.ask(what)
        assert answer.status == 200, (what, answer.status)
        return json.loads(content)

    def close(self):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def serve():
    pages = []

    def serve(*paths):
        pages.append(Page(*paths))
        return pages[-1]

    yield serve
    for page in pages:
        page.close()


def test_the_page_of_one_run_has_its_curves_its_words_and_its_samples(tmp_path, serve):
    page = serve(make_run(tmp_path / "mine").path)
    answer, html = page.ask("")
    assert answer.status == 200 and b'<script src="live.js"' in html and b"http://" not in html
    rules = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in rules and "script-src 'self'" in rules
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert page.ask("live.js")[0].headers["Content-Type"].startswith("text/javascript")
    now = page.json("now")
    assert now["title"] == "Run mine" and "finished" in now["fragments"]["state"]
    story = page.json("story")
    charts = {chart["id"]: chart for chart in story["charts"]}
    assert list(charts) == ["sides", "queue", "loss", "parts", "time", "speed", "padding"]
    training, validation = charts["loss"]["curves"]
    assert training["x"][:3] == [1, 2, 3] and training["y"][2] == 1.0 and training["y"][3] is None
    assert (validation["name"], validation["x"], validation["y"]) == ("validation", [30], [0.5])
    assert charts["queue"]["bound"] == 50
    (samples,) = story["samples"]
    assert [each["group"] for each in samples["groups"]] == [
        "recorded", "step-000030", "step-000010",
    ]  # fmt: skip
    (sample,) = samples["groups"][1]["samples"]
    answer, sound = page.ask(f"sample/0/step-000030/{sample['sound']}")
    assert answer.status == 200 and answer.headers["Content-Type"] == "audio/wav"
    assert sound.startswith(b"RIFF")
    answer, piece = page.ask(f"sample/0/step-000030/{sample['sound']}", Range="bytes=4-7")
    assert answer.status == 206 and piece == sound[4:8]
    assert answer.headers["Content-Range"] == f"bytes 4-7/{len(sound)}"
    answer, _ = page.ask(f"sample/0/step-000030/{sample['sound']}", Range="bytes=99999-")
    assert answer.status == 416


def test_samples_that_come_later_make_another_version(tmp_path):
    run = LiveRun(make_run(tmp_path / "mine").path)
    before, story = run._read()
    assert run._read() == (before, story) and run._read()[1] is story
    (run.directory.samples / "step-000040").mkdir()
    after, _ = run._read()
    assert after != before
    (run.directory.samples / "step-000040" / "0.wav").write_bytes(b"RIFF")
    assert run._read()[0] != after


def test_a_run_that_goes_on_is_seen_to_go_on_and_its_words_are_no_html(tmp_path, serve):
    run = make_run(tmp_path / "mine")
    keeper = StatusKeeper(50, START_S)
    keeper.training(0)
    for worker in ("data_worker-0", "model_worker"):
        for share in (0.25, 0.75):
            keeper.report(worker, Busy(share, memory_mb=640))
    keeper.report("model_worker", Metrics(record(31), OUTLOOK))
    keeper.say("📏 <script>alert(1)</script>")
    run.status.write_bytes(encode(keeper.status()))
    now = serve(run.path).json("now")["fragments"]
    assert "training" in now["state"]
    for words in (
        "data GPU",
        "model GPU",
        "75%",
        "steps of 200",
        "&lt;decoding&gt;",
        "of 50 batches",
    ):
        assert words in now["now"], words
    assert "<script>" not in now["lines"] and "&lt;script&gt;" in now["lines"]


def test_runs_are_compared_with_the_flags_that_differ(tmp_path, serve):
    make_run(tmp_path / "a", learning_rate=0.001)
    make_run(tmp_path / "b", learning_rate=0.002)
    page = serve(tmp_path)
    now = page.json("now")
    assert now["title"] == "2 runs" and now["chosen"] == [0, 1]
    story = page.json("story")
    assert "--learning-rate" in story["fragments"]["differs"]
    assert (
        "0.002" in story["fragments"]["differs"] and "run_id" not in story["fragments"]["differs"]
    )
    validation, training, _ = story["charts"]
    assert [curve["name"] for curve in training["curves"]] == ["a", "b"]
    assert len({curve["colour"] for curve in training["curves"]}) == 2
    assert validation["over_time"]["curves"][0]["x"] == [29]  # seconds
    assert [each["name"] for each in story["samples"]] == ["a", "b"]
    (alone,) = page.json("story?runs=1")["samples"]
    assert alone["name"] == "b"
    assert page.json("now?run=1")["title"] == "Run b"
    assert page.json("now?run=7")["title"] == "Not there"
    assert page.ask("story?run=7")[0].status == 404


def test_a_run_that_is_moved_away_is_said_to_be_gone(tmp_path, serve):
    run = make_run(tmp_path / "mine")
    page = serve(run.path)
    assert page.json("now")["title"] == "Run mine"
    run.path.rename(tmp_path / "elsewhere")
    assert "not there any more" in page.json("now")["fragments"]["words"]
    moved = serve(tmp_path / "elsewhere").json("now")
    assert moved["title"] == "Run elsewhere" and "finished" in moved["fragments"]["state"]


def test_nothing_but_the_samples_that_are_listed_can_be_had(tmp_path, serve):
    run = make_run(tmp_path / "mine")
    folder = run.samples / "step-000030"
    (tmp_path / "secret.wav").write_bytes(b"secret")
    (folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    (folder / "notes.txt").write_text("secret")
    os.mkfifo(folder / "pipe.wav")
    page = serve(run.path)
    for name in (
        "sample/0/step-000030/link.wav", "sample/0/step-000030/pipe.wav",
        "sample/0/step-000030/notes.txt", "sample/0/../config.toml", "sample/0/%2e%2e/config.toml",
        "sample/0/step-000030/%2e%2e%2f%2e%2e%2fconfig.toml", "sample/0/step-000030/..", "sample/0/./x",
        "sample/0/step-000030/%00", "sample/9/step-000030/0.wav", "sample/-1/step-000030/0.wav",
        "sample/0/step-000030/", "config.toml", "../config.toml", "answers.py", "live.css",
    ):  # fmt: skip
        answer, content = page.ask(name)
        assert answer.status == 404 and b"secret" not in content, name


def test_who_does_not_know_the_token_or_comes_by_another_name_gets_nothing(tmp_path, serve):
    page = serve(make_run(tmp_path / "mine").path)
    for target in ("/", "/now", "/wrong/now", page.token[:-2] + "/now"):
        answer, content = page.ask(target, whole=True)
        assert answer.status == 404 and b"mine" not in content
    assert page.ask("now", Host="evil.example")[0].status == 403
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        assert page.ask("now", method=method)[0].status == 405, method


def test_requests_that_are_none_end_their_connection_and_not_the_page(tmp_path, serve):
    page = serve(make_run(tmp_path / "mine").path)
    for request in (b"\x16\x03\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                    b"GET /" + b"x" * 70_000 + b"\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n"):  # fmt: skip
        with socket.create_connection((LOOPBACK, page.server.server_port), timeout=20) as peer:
            peer.sendall(request)
            assert b" 200 " not in peer.recv(1000).split(b"\r\n")[0]
    assert page.ask("now")[0].status == 200


def test_a_port_that_is_taken_is_a_sentence(tmp_path, serve):
    page = serve(tmp_path)
    with pytest.raises(InputError, match="no page can be served there"):
        page_server([tmp_path], LOOPBACK, page.server.server_port)
    with pytest.raises(InputError, match="no page can be served there"):
        page_server([tmp_path], "203.0.113.7", 0)
    with pytest.raises(InputError, match="no page can be served there"):
        page_server([tmp_path], f"{'x' * 80}.example", 0)


@pytest.mark.parametrize(
    ("host", "answer"), [("127.0.0.1", True), ("::1", True), ("localhost", True),
                         ("0.0.0.0", False), ("192.168.0.2", False), ("train-host", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches_is_known(host, answer):
    assert is_loopback(host) is answer


def test_what_takes_long_to_make_is_made_seldom():
    clock = [0.0]
    made = []

    def make():
        clock[0] += 0.3
        made.append(clock[0])
        return len(made) // 2

    kept = Kept(make, every_s=1.0, now=lambda: clock[0])
    assert [kept.value(), kept.value()] == [0, 0] and len(made) == 1
    clock[0] += 9.5  # a thirtieth of the time at most
    assert kept.value() == 0 and len(made) == 1
    clock[0] += 1
    assert kept.value() == 1 and len(made) == 2 and kept.version == 2
