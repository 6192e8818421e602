"""The stream is the same whatever makes it: workers, buffers, caches, hands, deaths."""

import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import psutil
import pytest
from documents import the_documented


@pytest.mark.parametrize(
    "flags",
    [
        ("--fake-gpus", "3", "--data-gpu", "0,2", "--buffer-size", "2", "--cache", "disk"),
        ("--data-workers", "3", "--cache", "off", "--endpoint", "PORT"),
    ],
)
def test_the_audit_is_the_same_with_any_workers_buffer_cache_and_endpoint(runs, undisturbed, flags):
    flags = [f"tcp://127.0.0.1:{free_port()}" if flag == "PORT" else flag for flag in flags]
    runs.finish("run", "--max-steps", "14", *flags)
    assert runs.audit("run") == undisturbed.audit("run")
    assert runs.weights("run") == undisturbed.weights("run")


def test_workers_started_by_hand_with_keys_make_the_same_run(checkout, undisturbed):
    prepare = the_documented("train", "--prepare-only")
    prepared = checkout.documented(prepare, *checkout.settings, "--max-steps", "14")
    assert prepared.wait() == 0, prepared.text
    assert checkout.documented(the_documented("keys")).wait() == 0
    shutil.copy(checkout.folder / "keys" / "data_worker.key", checkout.folder)
    port = free_port()
    # The data process first: it waits for its peer.
    data, model = (
        checkout.documented([
            re.sub(r"^tcp://(.*):5555$", rf"tcp://\1:{port}", word).replace("train-host", "localhost")
            for word in words
        ])
        for words in (
            the_documented("data_worker", "--keys"), the_documented("model_worker", "--keys"),
        )
    )  # fmt: skip
    assert model.wait() == 0, model.text
    assert data.wait() == 0, data.text
    assert "🏁 Finished. Everything is in runs/mine" in model.text
    assert checkout.audit("runs/mine") == undisturbed.audit("run")
    assert checkout.weights("runs/mine") == undisturbed.weights("run")


def test_a_spare_takes_over_from_a_killed_data_worker(runs, undisturbed):
    command = runs.launch("run", "--max-steps", "14", "--buffer-size", "1", "--spare-data-worker")
    model, spare = command.child("model_worker"), command.child("--spare")
    first = command.child("data_worker", other_than=spare)
    runs.wait_for_step(command, "run", 1)
    os.kill(model, signal.SIGSTOP)  # so that the run is not over before the spare is ready
    runs.wait_for_log("run", "data_spare-0", "standing by")
    os.kill(first, signal.SIGKILL)
    runs.wait_for_log("run", "launcher", "killed by SIGKILL; its spare takes over")
    os.kill(model, signal.SIGCONT)
    assert command.wait() == 0, command.text + runs.logs("run")
    runs.wait_for_log("run", "data_worker-0", f"the spare (pid {spare}) takes over")
    assert runs.audit("run") == undisturbed.audit("run")
    assert runs.weights("run") == undisturbed.weights("run")
    assert runs.leftovers() == []


def environment_of(pid: int) -> dict[str, str]:
    content = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(item.split("=", 1) for item in content.split("\0") if "=" in item)


def test_a_stopped_run_leaves_nothing_behind_and_resumes_to_the_same_weights(runs, undisturbed):
    command = runs.launch("run", "--max-steps", "14")
    data, model = command.child("data_worker"), command.child("model_worker")
    assert environment_of(data)["CUDA_VISIBLE_DEVICES"] == "0"
    assert environment_of(model)["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment_of(model)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    runs.wait_for_step(command, "run", 1)
    maps = Path(f"/proc/{command.pid}/maps").read_text()
    assert "tensorflow" not in maps and "librosa" not in maps
    cores = [psutil.Process(pid).cpu_affinity() for pid in (data, model)]
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(cores[0]) & set(cores[1])
    runs.wait_for_step(command, "run", 5)
    command.signal(signal.SIGINT)
    assert command.wait(60) == 130, command.text
    assert not psutil.pid_exists(data) and not psutil.pid_exists(model)
    assert runs.leftovers() == []
    resumed = runs.finish("run")
    assert "Continuing from step" in resumed.text
    assert runs.audit("run") == undisturbed.audit("run")
    assert runs.weights("run") == undisturbed.weights("run")


def test_the_workers_die_with_a_killed_launcher_and_a_second_ctrl_c_means_now(runs):
    command = runs.launch("run", "--max-steps", "100000")
    workers = [command.child("data_worker"), command.child("model_worker")]
    runs.wait_for_step(command, "run", 1)
    os.kill(workers[0], signal.SIGSTOP)  # even one that can't act any more
    command.signal(signal.SIGKILL)
    command.wait()
    runs.wait_for_end(workers, deadline_s=2)
    # Nothing stale blocks the next start, which blocks another.
    again = runs.launch("run", "--fresh", "--report")
    again.wait_for_text("Model training starting now")
    second = runs.launch("run")
    assert second.wait() == 2
    assert "is using this run directory" in second.text
    model = again.child("model_worker")
    os.kill(model, signal.SIGSTOP)  # or it would have saved and ended before the second Ctrl-C
    again.signal(signal.SIGINT)
    again.wait_for_text("Ctrl-C again to stop at once")
    again.signal(signal.SIGINT)
    assert again.wait() == 130, again.text
    assert "Stopped at once" in again.text and "goes on from there" in again.text
    assert not (runs.folder / "run" / "report.html").exists()
    assert not psutil.pid_exists(model)


def test_an_utterance_that_vanishes_or_crashes_its_reader_is_left_out_and_named(runs, tmp_path):
    corpus = tmp_path / "corpus"
    shutil.copytree(runs.corpus, corpus)
    runs.corpus = corpus
    flags = ("--max-steps", "14", "--max-bad-fraction", "0.2", "--cache", "off")
    runs.finish("one", *flags, "--prepare-only")
    victim = sorted((corpus / "wavs").iterdir())[3]
    # The first time it crashes whoever opens it; what the preparation found is known already.
    crashing = runs.finish("two", *flags, "--data-workers", "2", **faulty_at(runs, victim))
    assert "killed by SIGSEGV; starting it again" in crashing.text
    assert "decoding it crashes the process (SIGSEGV)" in crashing.text
    # The second time it is cut short. By hand, so that the launcher does not look at it again.
    victim.write_bytes(victim.read_bytes()[:60])
    by_hand = (the_documented("data_worker"), the_documented("model_worker"))
    workers = [runs.documented(words, "--run", str(runs.folder / "one")) for words in by_hand]
    for worker in workers:
        assert worker.wait() == 0, worker.text
    for name in ("one", "two"):
        lines = (runs.folder / name / "quarantine.jsonl").read_text().splitlines()
        named = [json.loads(line) for line in lines]
        assert {record["path"] for record in named} == {f"wavs/{victim.name}"}
        assert all("from_batch" in record for record in named)
    assert runs.audit("one") == runs.audit("two")
    assert victim.stem not in runs.audit("one").decode()


def test_a_data_worker_started_by_hand_finds_the_file_that_crashed_the_one_before(runs):
    flags = ("--max-steps", "14", "--max-bad-fraction", "0.2", "--prepare-only")
    runs.finish("run", *flags)
    folder = runs.folder / "run"
    victim = sorted((runs.corpus / "wavs").iterdir())[3]
    model = runs.python("-m", "model_worker", "--run", str(folder))
    command = ("-m", "data_worker", "--run", str(folder))
    first = runs.python(*command, **faulty_at(runs, victim))
    assert first.wait() == -signal.SIGSEGV, first.text
    assert [path.name for path in folder.glob(".reading-*")] == [f".reading-{first.pid}"]
    second = runs.python(*command, **faulty_at(runs, victim))
    assert (second.wait(), model.wait()) == (0, 0), second.text + model.text
    assert "guilty, SIGSEGV" in second.text
    (line,) = (folder / "quarantine.jsonl").read_text().splitlines()
    assert json.loads(line)["path"] == f"wavs/{victim.name}"
    assert list(folder.glob(".reading-*")) == []


def faulty_at(runs, victim: Path) -> dict[str, str]:
    """The environment of a process that ends by SIGSEGV, or hangs, where it opens this file."""
    faulty = Path(__file__).resolve().parents[1] / "faulty"
    return {
        "TANDEM_FAULTY_FILE": str(victim),
        "PYTHONPATH": os.pathsep.join([str(faulty), runs.environment["PYTHONPATH"]]),
    }


def test_storage_that_does_not_answer_is_noticed_and_costs_nothing(runs, undisturbed, tmp_path):
    victim = sorted((runs.corpus / "wavs").iterdir())[3]
    hanging = {**faulty_at(runs, victim), "TANDEM_FAULTY_HANG": str(tmp_path / "hangs")}
    run = runs.finish("run", "--max-steps", "14", **hanging)
    # Its loop lives and says so each second; the deadline and the tick after it are under 10 s.
    assert re.search("data_worker-0: no progress for [89] s while serving", run.text), run.text
    assert "s while serving; starting it again" in run.text
    assert "wait_for_ever" in (runs.folder / "run" / "data_worker-0.log").read_text()
    assert runs.audit("run") == undisturbed.audit("run")
    assert runs.weights("run") == undisturbed.weights("run")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
