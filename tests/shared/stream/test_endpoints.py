"""Endpoints: what can be used, what is refused and why, and who may listen."""

import os
import socket
import stat
from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.stream.endpoints import (
    check_endpoint,
    claim_endpoint,
    connectable,
    default_endpoint,
    make_private_directory,
    remove_socket,
    remove_stale_sockets,
    take_endpoint,
)


@pytest.mark.parametrize(
    ("endpoint", "used"),
    [
        ("tcp://127.0.0.1:5555", "tcp://127.0.0.1:5555"),
        ("tcp://127.3.2.1:1", "tcp://127.3.2.1:1"),
        ("tcp://[::1]:65535", "tcp://[::1]:65535"),
        ("tcp://localhost:5555", "tcp://127.0.0.1:5555"),
        ("ipc:///" + "x" * 106, "ipc:///" + "x" * 106),
    ],
)
def test_what_can_be_used_is_returned_as_zeromq_takes_it(endpoint, used):
    assert check_endpoint(endpoint) == used


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("tcp://127.0.0.1:0", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1:65536", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1:-1", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1:", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1:\u00b2", "the port must be a number from 1 to 65535."),
        ("tcp://127.0.0.1:\u0663", "the port must be a number from 1 to 65535."),
        ("tcp://*:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://0.0.0.0:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://192.168.1.2:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://[::]:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://[2001:db8::1]:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://[127.0.0.1]:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://example.org:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://:5555", "only loopback addresses are open to plain TCP"),
        ("tcp://::1:5555", "write an IPv6 address in brackets, as tcp://[::1]:5555."),
        ("tcp://[::1:5555", "write an IPv6 address in brackets, as tcp://[::1]:5555."),
        ("ipc://relative/path", "an ipc endpoint needs an absolute path."),
        ("ipc://@abstract", "an ipc endpoint needs an absolute path."),
        ("ipc://", "an ipc endpoint needs an absolute path."),
        ("ipc:///" + "x" * 107, "the path is 108 bytes long, and sockets take at most 107."),
        ("ipc:///" + "\u00e9" * 54, "the path is 109 bytes long, and sockets take at most 107."),
        ("udp://127.0.0.1:5555", "expected ipc:///PATH or tcp://127.0.0.1:PORT."),
        ("127.0.0.1:5555", "expected ipc:///PATH or tcp://127.0.0.1:PORT."),
        ("", "expected ipc:///PATH or tcp://127.0.0.1:PORT."),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_reason(endpoint, said):
    with pytest.raises(ConfigError) as caught:
        check_endpoint(endpoint)
    assert str(caught.value).startswith(f"{endpoint}: {said}")


def test_a_refused_address_comes_with_the_way_to_open_it():
    with pytest.raises(ConfigError, match="launcher.py keys' and give --keys"):
        check_endpoint("tcp://192.168.1.2:5555")


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://192.168.1.2:5555", "tcp://[2001:db8::1]:5555",
     "tcp://train-1.example.org:5555"],
)  # fmt: skip
def test_with_keys_any_address_can_be_used(endpoint):
    assert check_endpoint(endpoint, has_keys=True) == endpoint


@pytest.mark.parametrize(
    "endpoint", ["tcp://:5555", "tcp://a b:5555", "tcp://[x]:5555", "tcp://-a:1", "tcp://a..b:1"]
)
def test_with_keys_it_must_still_be_an_address(endpoint):
    with pytest.raises(ConfigError, match="neither an address nor a name"):
        check_endpoint(endpoint, has_keys=True)


@pytest.mark.parametrize(
    ("endpoint", "used"),
    [
        ("tcp://*:5555", "tcp://127.0.0.1:5555"),
        ("tcp://0.0.0.0:5555", "tcp://127.0.0.1:5555"),
        ("tcp://[::]:5555", "tcp://[::1]:5555"),
        ("tcp://10.0.0.7:5555", "tcp://10.0.0.7:5555"),
        ("ipc:///tmp/*:1", "ipc:///tmp/*:1"),
    ],
)
def test_who_listens_everywhere_is_found_here(endpoint, used):
    assert connectable(endpoint) == used


def test_the_default_endpoint_follows_from_the_run_alone_and_fits_a_socket(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_endpoint("a") == default_endpoint("a") != default_endpoint("b")
    assert check_endpoint(default_endpoint("a" * 1000))


def test_a_runtime_directory_too_deep_for_a_socket_is_passed_over(monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert not default_endpoint("a").startswith(f"ipc://{deep}")
    assert check_endpoint(default_endpoint("a"))


def test_the_directory_of_a_socket_is_made_for_this_user_alone(tmp_path):
    make_private_directory(f"ipc://{tmp_path}/a/b/stream")
    for name in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    make_private_directory(f"ipc://{tmp_path}/a/b/stream")


def test_a_directory_open_to_others_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(ConfigError, match="open to other users.*chmod 700"):
        make_private_directory(f"ipc://{tmp_path}/open/stream")


def test_a_link_in_the_directory_s_place_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="open to other users"):
        make_private_directory(f"ipc://{tmp_path}/link/stream")


def test_a_directory_that_can_not_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="can't be made"):
        make_private_directory(f"ipc://{tmp_path}/file/deeper/stream")
    with pytest.raises(ConfigError, match="can't be made"):
        make_private_directory(f"ipc://{tmp_path}/not/there/at/all/stream")


def test_an_endpoint_belongs_to_one_at_a_time(tmp_path):
    endpoint = f"ipc://{tmp_path}/stream"
    claim = claim_endpoint(endpoint)
    with pytest.raises(ConfigError, match="another run is listening there"):
        claim_endpoint(endpoint)
    os.close(claim)
    os.close(claim_endpoint(endpoint))


def test_tcp_needs_no_claim():
    assert take_endpoint("tcp://127.0.0.1:5555") is None


def test_a_stale_socket_is_removed_with_the_directory_that_was_made_for_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    endpoint = default_endpoint("a")
    make_private_directory(endpoint)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(endpoint.removeprefix("ipc://"))
    remove_socket(endpoint)
    assert os.listdir(tmp_path / f"tandem-{os.getuid()}") == []
    remove_socket(endpoint)


def test_the_socket_of_a_run_that_is_alive_is_left_alone(tmp_path):
    path = tmp_path / "stream"
    path.touch()
    claim = claim_endpoint(f"ipc://{path}")
    remove_socket(f"ipc://{path}")
    assert path.exists()
    os.close(claim)
    remove_socket(f"ipc://{path}")
    assert os.listdir(tmp_path) == []


def test_sockets_that_killed_runs_left_behind_are_removed_and_those_in_use_are_not(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    stale, used, young = (default_endpoint(name) for name in ("stale", "used", "young"))
    paths = [Path(endpoint.removeprefix("ipc://")) for endpoint in (stale, used, young)]
    for endpoint, path in zip((stale, used, young), paths, strict=True):
        os.close(take_endpoint(endpoint))
        path.touch()
    claim = take_endpoint(used)
    for path in paths[:2]:
        os.utime(path.parent, (1.0, 1.0))
    remove_stale_sockets()
    assert [path.parent.exists() for path in paths] == [False, True, True]
    assert paths[1].exists() and paths[2].exists()
    os.close(claim)
