"""`launcher.py validate` with real processes on fake GPUs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]

from documents import the_documented


def validate(tmp_path, *arguments):
    runtime = tmp_path / "sockets"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    environment.pop("TANDEM_FAKE_GPUS", None)
    return subprocess.run(
        [sys.executable, "launcher.py", "validate", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )


def test_all_five_checks_pass_on_two_fake_gpus_and_leave_nothing_behind(tmp_path):
    flags = the_documented("validate", "--data-gpu")[3:]
    report = flags.index("--report")
    flags[report + 1] = str(tmp_path / flags[report + 1])
    done = validate(tmp_path, *flags, "--fake-gpus", "2")
    assert done.returncode == 0, done.stdout
    assert re.findall(r"✅ (\d)/5 .*\(\d+\.\d s\)", done.stdout) == ["1", "2", "3", "4", "5"]
    assert done.stdout.endswith(
        "🎉 All validation checks passed!\nYour system is ready for dual-GPU training.\n"
        "That was on fake GPUs; run it without --fake-gpus where there are real ones.\n"
        f"📄 Report: {flags[report + 1]}\n"
    )
    assert not list(tmp_path.glob("tandem-validate-*"))
    assert not [path for path in (tmp_path / "sockets").rglob("*") if path.is_socket()]
    marker = str(tmp_path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if marker in str(p.info["cmdline"])]


def test_an_index_that_is_not_there_fails_the_second_check_with_a_remedy(tmp_path):
    done = validate(tmp_path, "--fake-gpus", "2", "--model-gpu", "99")
    assert done.returncode == 1
    assert "❌ 2/5 Placement" in done.stdout and "Invalid model_gpu=99, must be 0-1" in done.stdout
    assert "What to do: " in done.stdout and "--data-gpu 0 --model-gpu 1" in done.stdout
    assert "3/5" not in done.stdout and "All validation checks passed" not in done.stdout


def test_one_gpu_fails_the_first_check_with_a_remedy(tmp_path):
    done = validate(tmp_path, "--fake-gpus", "1")
    assert done.returncode == 1
    assert "❌ 1/5 Prerequisites" in done.stdout and "only 1 GPU was found" in done.stdout
    assert "validate --fake-gpus 2" in done.stdout
