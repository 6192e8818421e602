"""Key files: private from the first byte, and refused with a sentence when they are not right."""

import os
import stat

import pytest

from shared.commands import keys as keys_command
from shared.errors import ConfigError, InputError
from shared.stream.keys import load_client_keys, load_server_keys, make_keys


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_files_belong_together_and_are_private_whatever_the_umask(tmp_path, open_umask):
    folder = tmp_path / "keys"
    made = make_keys(folder, ["data_worker"])
    assert [path.name for path in made] == ["model_worker.key", "data_worker.key"]
    assert mode(folder) == 0o700 and all(mode(path) == 0o600 for path in made)
    server, client = load_server_keys(folder), load_client_keys(folder)
    assert client.server == server.public
    assert server.allowed == {client.public: "data_worker"}
    assert len({server.public, server.secret, client.public, client.secret}) == 4
    assert client.secret not in repr(client) and server.secret not in repr(server)


def test_a_key_for_one_more_data_process_leaves_the_others_as_they_are(tmp_path):
    make_keys(tmp_path, ["data_worker"])
    before, first = load_server_keys(tmp_path), load_client_keys(tmp_path)
    assert [path.name for path in make_keys(tmp_path, ["gpu-box_2"])] == ["gpu-box_2.key"]
    after, second = load_server_keys(tmp_path), load_client_keys(tmp_path / "gpu-box_2.key")
    assert (after.public, after.secret) == (before.public, before.secret)
    assert after.allowed == {first.public: "data_worker", second.public: "gpu-box_2"}
    assert mode(tmp_path / "model_worker.key") == 0o600
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["", "a b", "../up", "x" * 65, "model_worker", "a=1"])
def test_a_name_that_can_not_be_used_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="is no name for a key"):
        make_keys(tmp_path, [name])
    assert not list(tmp_path.iterdir())


def test_a_key_that_is_there_is_never_overwritten(tmp_path):
    make_keys(tmp_path, ["data_worker"])
    before = (tmp_path / "data_worker.key").read_text()
    with pytest.raises(InputError, match="is there already; choose another --name"):
        make_keys(tmp_path, ["other", "data_worker"])
    assert (tmp_path / "data_worker.key").read_text() == before
    assert not (tmp_path / "other.key").exists()


def test_a_key_that_others_can_read_is_refused_with_the_remedy(tmp_path):
    make_keys(tmp_path, ["data_worker"])
    path = tmp_path / "data_worker.key"
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=f"others can read this key. Run 'chmod 600 {path}'"):
        load_client_keys(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no \\[allowed\\] section"),
        (b"\xff\xfe", "is not a key file"),
        (b"public = ", "is not a key file"),
        (b'public = "short"\n[allowed]\n', "public is not a key of 40 characters"),
        (b'public = 7\n[allowed]\nx = "y"\n', "x is not a key of 40 characters"),
        (b'public = "' + b"a" * 40 + b'"\n[allowed]\n', "secret is not a key of 40 characters"),
    ],
)
def test_a_file_that_holds_no_keys_is_refused(tmp_path, content, said):
    path = tmp_path / "model_worker.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=said):
        load_server_keys(tmp_path)


def test_keys_that_are_not_there_are_a_sentence_with_the_remedy(tmp_path):
    for load in (load_server_keys, load_client_keys):
        with pytest.raises(ConfigError, match="No such file.*launcher.py keys"):
            load(tmp_path)


def test_the_command_says_where_each_file_belongs(tmp_path, capsys):
    assert keys_command.main(["--out", str(tmp_path / "k"), "--name", "a", "--name", "b"]) == 0
    said = capsys.readouterr().out
    for name in ("model_worker", "a", "b"):
        assert str(tmp_path / "k" / f"{name}.key") in said
    for path in (tmp_path / "k").iterdir():
        secret = path.read_text().split('secret = "')[1][:40]
        assert secret not in said
