"""--engine: what is asked for is refused, in a sentence, where it can't be had or is not safe."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shared.config.settings import Config, DataConfig, RunConfig
from shared.errors import InputError
from shared.places.engine import check_engine
from shared.places.ray_refusals import check_ray_flags, mend_token_file

ROOT = Path(__file__).resolve().parents[3]
LOOPBACK = "127.0.0.2:6379"

# A Python in which Ray is not installed, whatever there is.
WITHOUT_RAY = (
    "import runpy, sys\n"
    "sys.modules['ray'] = None\n"
    "sys.argv = ['launcher.py', *sys.argv[1:]]\n"
    "runpy.run_path('launcher.py', run_name='__main__')\n"
)


def config(data=None, **run):
    return Config(DataConfig(train_data="x", **(data or {})), run=RunConfig(engine="ray", **run))


@pytest.fixture(autouse=True)
def no_ray_settings(monkeypatch, tmp_path):
    for name in ("RAY_AUTH_MODE", "RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # so that no cluster of this host is found


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, "--engine", "ray", "--train-data", str(tmp_path),
         "--run-dir", str(tmp_path / "run")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert found.stderr == (
        "❌ --engine ray needs Ray, which is not installed here: run 'python -m pip install -r "
        "requirements-ray.lock' on every host.\n"
    )
    assert (ROOT / "requirements-ray.lock").is_file() and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (config(ray_address="10.0.0.1:6379"), "anyone who reaches a Ray cluster can run programs"),
        (config(ray_address="127.0.0.1:6379"), "beyond this machine"),
        (config(ray_address="ray://10.0.0.1:10001"), "the address of Ray's client"),
        (config(ray_address="here"), "expected auto or HOST:PORT"),
        (config(), "no Ray runs on this host. Start it with 'ray start --head'"),
        (config({"data_gpu": 0, "model_gpu": 1}), "--model-replicas N"),
        (config(endpoint="tcp://127.0.0.1:5", ray_address=LOOPBACK), "which makes both"),
        (config(keys="k", ray_address=LOOPBACK), "which makes both"),
    ],
)
def test_what_can_not_be_meant_or_is_open_to_strangers_is_refused(wanted, words):
    with pytest.raises(InputError, match="^-") as refused:
        check_ray_flags(wanted)
    assert words in str(refused.value) and refused.value.exit_code == 2


def test_a_cluster_that_only_this_machine_can_reach_needs_no_token():
    check_ray_flags(config(ray_address=LOOPBACK))


def test_beyond_it_a_token_is_needed_or_a_word_of_trust(monkeypatch):
    check_ray_flags(config(ray_address="node-1:6379", trusted_network=True))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    check_ray_flags(config(ray_address="node-1:6379"))


def test_the_cluster_that_this_host_belongs_to_is_held_to_the_same(tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379")
    with pytest.raises(InputError, match="--ray-address 10.0.0.1:6379: beyond this machine"):
        check_ray_flags(config())
    (tmp_path / "ray" / "ray_current_cluster").write_text(LOOPBACK)
    check_ray_flags(config())


def test_flags_of_a_cluster_are_refused_on_one_machine():
    for run in (RunConfig(ray_address=LOOPBACK), RunConfig(trusted_network=True)):
        with pytest.raises(InputError, match="are for --engine ray"):
            check_engine(Config(DataConfig(train_data="x"), run=run))


def test_a_token_that_others_can_read_is_kept_to_its_owner(tmp_path, monkeypatch):
    token, said = tmp_path / "auth_token", []
    token.write_text("secret")
    token.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    mend_token_file(said.append)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and len(said) == 1
    mend_token_file(said.append)
    assert len(said) == 1
