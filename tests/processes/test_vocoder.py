"""The vocoder in real processes: the same stream, the same weights, and a voice that speaks with it."""

import dataclasses
import re
import shutil
import signal

import pytest

from model_worker.vocoder.judgement import read_judgement

FLAGS = ("--task", "vocoder", "--max-steps", "8", "--checkpoint-every", "2")


def test_three_data_processes_and_a_stop_end_in_the_same_audit_and_weights(runs, vocoder):
    flags = (*FLAGS, "--data-workers", "3", "--cache", "off")
    command = runs.launch("run", *flags)
    runs.wait_for_step(command, "run", 3)
    command.signal(signal.SIGINT)
    assert command.wait() == 130, command.text
    resumed = runs.finish("run", *flags)
    assert "Continuing from step" in resumed.text
    assert runs.audit("run") == vocoder.audit("run")
    assert runs.weights("run") == vocoder.weights("run")


def test_it_shows_recordings_beside_what_it_makes_of_them_and_says_what_is_next(vocoder):
    folder = vocoder.folder / "run"
    for place in ("step-000006", "step-000008"):
        names = {path.name for path in (folder / "samples" / place).iterdir()}
        assert names == {"0.wav", "1.wav", "0.png", "1.png", "remark.txt"}
    assert {path.name for path in (folder / "samples" / "recorded").iterdir()} == {"0.wav", "1.wav"}
    for i in range(2):
        sizes = {path.stat().st_size for path in (folder / "samples").glob(f"*/{i}.wav")}
        assert len(sizes) == 1  # as long as the recording
    report = (folder / "report.html").read_text()
    assert "audio/wav" in report and "2 held-out recordings than Griffin-Lim" in report
    validations = [each for each in vocoder.metrics("run") if "judged_by" in each]
    assert {each["judged_by"] for each in validations} == {"val_magnitude"}
    assert {each.get("unit") for each in vocoder.metrics("run")} == {None, "s of audio"}
    assert f"speak --run VOICE --vocoder {folder}" in (folder / "launcher.log").read_text()


def test_another_task_does_not_go_on_with_it(vocoder):
    command = vocoder.python("launcher.py", "--run-dir", str(vocoder.folder / "run"))
    assert command.wait() == 2
    assert "was begun with --task vocoder" in command.text


def test_what_is_no_vocoder_is_named_before_anything_is_loaded(undisturbed, vocoder):
    voice = str(undisturbed.folder / "run")
    flags = ("--run", voice, "--vocoder", voice, "--text", "hi", "--out", "a.wav")
    command = vocoder.python("launcher.py", "speak", *flags)
    assert command.wait() == 2
    assert "is a run of --task speech, which makes no sound of a mel" in command.text


def test_a_voice_speaks_with_its_own_vocoder_once_that_is_better(undisturbed, vocoder, runs):
    voice = runs.folder / "voice"
    shutil.copytree(undisturbed.folder / "run", voice)
    shutil.copytree(vocoder.folder / "run", voice / "vocoder")
    samples = voice / "vocoder" / "samples"
    judged = read_judgement(samples)
    assert judged is not None and judged.num_clips == 2  # of the last validation
    for is_better in (False, True):
        other = judged.vocoder * (1.1 if is_better else 0.9)
        dataclasses.replace(judged, griffin_lim=other).write(samples)
        flags = ("--text", "One red boat.", "--out", str(runs.folder / "a.wav"))
        command = runs.python("launcher.py", "speak", "--run", str(voice), *flags)
        assert command.wait() == 0, command.text
        said, by = ("Its vocoder speaks", "vocoder") if is_better else ("Griffin-Lim speaks",) * 2
        assert said in command.text
        assert re.search(rf"real-time factor [\d.]+, {by.split()[0]};", command.text), command.text


@pytest.mark.long
def test_one_command_trains_both_and_goes_on_where_it_was(runs):
    folder = runs.folder / "both"
    flags = ("--train-data", str(runs.corpus), "--run-dir", str(folder), "--model-size", "tiny")
    budget = ("--batch-size", "8", "--max-minutes", "2", "--vocoder-share", "0.5", "--no-live")
    command = runs.python("launcher.py", *flags, *budget)
    assert command.wait(240) == 0, command.text
    assert "1 of the 2 minutes go to the vocoder" in command.text
    assert command.text.count("🏁 Finished") == 2
    for run in (folder, folder / "vocoder"):
        assert any((run / "checkpoints").iterdir()) and (run / "report.html").is_file()
    assert read_judgement(folder / "vocoder" / "samples") is not None
    remarks = [path.read_text() for path in (folder / "samples").glob("step-*/remark.txt")]
    assert remarks and all("vocoder" in remark for remark in remarks)
    again = runs.python("launcher.py", "--run-dir", str(folder), "--no-live")
    assert again.wait() == 0, again.text
    assert f"The vocoder in {folder}/vocoder is trained already" in again.text
    assert "minutes are used up" in again.text
