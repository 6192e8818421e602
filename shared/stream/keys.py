"""Key files: who may listen, who may connect. CURVE keys in TOML that only their owner can read.

model_worker.key   the model process's key pair, and the public keys that it lets in
NAME.key           a data process's key pair, and the model process's public key
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path

import zmq

from shared.config.installation import PROGRAM
from shared.errors import ConfigError, InputError
from shared.whole_file import whole_file

SERVER_FILE = "model_worker.key"
DEFAULT_CLIENT = "data_worker"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")  # Z85 of 32 bytes
_MAX_FILE_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class ServerKeys:
    """The model process's own pair, and the name of each public key that it lets in."""

    public: str
    secret: str = dataclasses.field(repr=False)
    allowed: dict[str, str]  # public key -> name


@dataclasses.dataclass(frozen=True)
class ClientKeys:
    """A data process's own pair, and the public key that the model process must have."""

    public: str
    secret: str = dataclasses.field(repr=False)
    server: str


def make_keys(folder: Path, names: list[str]) -> list[Path]:
    """Write keys for a model process (unless there are some) and for the named data processes.

    Raises:
        InputError: a name can't be used, its file is there already, or the folder is not ours.
    """
    for name in names:
        if not _NAME.fullmatch(name) or f"{name}.key" == SERVER_FILE:
            raise InputError(
                f"{name!r} is no name for a key; expected up to 64 letters, digits, - and _, and "
                "not model_worker."
            )
        if (folder / f"{name}.key").exists():
            raise InputError(f"{folder / name}.key is there already; choose another --name.")
    server_file = folder / SERVER_FILE
    made = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if server_file.exists():
            server = load_server_keys(folder)
        else:
            server = ServerKeys(*_new_pair(), allowed={})
            made.append(server_file)
        for name in names:
            client = ClientKeys(*_new_pair(), server=server.public)
            _write(folder / f"{name}.key", _client_text(client))
            server.allowed[client.public] = name
            made.append(folder / f"{name}.key")
        _write(server_file, _server_text(server))
    except OSError as error:
        raise InputError(
            f"{folder}: keys can't be written there ({error.strerror}). Choose another --out."
        ) from None
    return made


def keys_in_memory(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The text of a key file for a model process, and of one for each of the named data processes.

    They are made for one run and are in no file.
    """
    server = ServerKeys(*_new_pair(), allowed={})
    clients = {}
    for name in names:
        client = ClientKeys(*_new_pair(), server=server.public)
        server.allowed[client.public] = name
        clients[name] = _client_text(client)
    return _server_text(server), clients


def load_server_keys(path: str | Path) -> ServerKeys:
    """The keys of the model process, from its file or the folder that holds it.

    Raises:
        ConfigError: the file is not there, not private, or not a key file.
    """
    path = _key_file(path, SERVER_FILE)
    found = _read(path)
    allowed = found.get("allowed")
    if not isinstance(allowed, dict):
        raise ConfigError(f"{path}: has no [allowed] section; is it the model process's key file?")
    keys = {_key(path, found_key, name): name for name, found_key in allowed.items()}
    return ServerKeys(*_pair(path, found), allowed=keys)


def load_client_keys(path: str | Path) -> ClientKeys:
    """The keys of a data process, from its file or a folder with `data_worker.key`.

    Raises:
        ConfigError: as above.
    """
    path = _key_file(path, f"{DEFAULT_CLIENT}.key")
    found = _read(path)
    return ClientKeys(*_pair(path, found), server=_key(path, found.get("server"), "server"))


def _key_file(path: str | Path, name: str) -> Path:
    path = Path(path)
    return path / name if path.is_dir() else path


def _new_pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _client_text(keys: ClientKeys) -> str:
    return (
        "# A data process's key. Whoever has this file can feed the training.\n"
        f'server = "{keys.server}"\npublic = "{keys.public}"\nsecret = "{keys.secret}"\n'
    )


def _server_text(keys: ServerKeys) -> str:
    lines = [f'{name} = "{public}"' for public, name in keys.allowed.items()]
    return (
        "# The model process's key. It stays on its host.\n"
        f'public = "{keys.public}"\nsecret = "{keys.secret}"\n\n'
        "# Data processes that are let in; take a line away to shut one out.\n"
        "[allowed]\n" + "\n".join(lines) + "\n"
    )


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, whatever the umask is."""
    with whole_file(path, mode=0o600) as file:
        file.write(text.encode("ascii"))


def _read(path: Path) -> dict:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            _check_private(path, os.fstat(descriptor))
            return tomllib.loads(file.read(_MAX_FILE_BYTES).decode("ascii"))
    except OSError as error:
        raise ConfigError(
            f"{path}: can't be read ({error.strerror}). Make keys with "
            f"'{PROGRAM} keys --out keys' and give --keys."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not a key file ({error}).") from None


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: is not a key file.")
    if status.st_uid not in (0, os.getuid()) or stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(
            f"{path}: others can read this key. Run 'chmod 600 {path}', or make new keys if "
            "someone may have read it."
        )


def _pair(path: Path, found: dict) -> tuple[str, str]:
    return _key(path, found.get("public"), "public"), _key(path, found.get("secret"), "secret")


def _key(path: Path, value: object, name: str) -> str:
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise ConfigError(f"{path}: {name} is not a key of 40 characters.")
    return value
