"""Where batches flow: checking endpoints, and private directories for ipc sockets."""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import os
import re
import socket
import stat
import tempfile
import time
from pathlib import Path

from shared.config.installation import PROGRAM
from shared.errors import ConfigError

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,8}")
_STALE_AFTER_S = 60.0
_TRIES = 5
_MAX_IPC_PATH_BYTES = 107  # sockaddr_un's limit, less its NUL
CHOOSE_ANOTHER = "Choose another --endpoint (--listen and --connect for workers started by hand)."


def default_endpoint(run_id: str) -> str:
    """The run's own ipc endpoint; both workers find it from the run's identity alone."""
    name = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    return f"ipc://{_runtime_directory() / name / 'stream'}"


def endpoint_of_replica(endpoint: str, rank: int) -> str:
    """Where batches flow to a replica of the model process, given that of the first one (rank 0).

    Beside the first one's file, or on the port that comes so many after its own.
    """
    if not rank:
        return endpoint
    if endpoint.startswith("ipc://"):
        return f"{endpoint}-{rank}"
    address, _, port = endpoint.rpartition(":")
    return f"{address}:{int(port) + rank}"


def exchange_endpoint(run_id: str) -> str:
    """Where the replicas of a run on one machine add up what they compute: always a private socket."""
    return f"{default_endpoint(run_id)}.sums"


def exclusion_endpoint(run_id: str) -> str:
    """Where they agree on what is left out."""
    return f"{default_endpoint(run_id)}.words"


def _runtime_directory() -> Path:
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if base and os.path.isdir(base) and os.access(base, os.W_OK):
            path = Path(base) / f"tandem-{os.getuid()}"
            if len(os.fsencode(path)) + 32 <= _MAX_IPC_PATH_BYTES:
                return path
    raise ConfigError("no writable directory for sockets; set XDG_RUNTIME_DIR to a short one.")


def check_endpoint(endpoint: str, has_keys: bool = False) -> str:
    """Return the endpoint if it can be used.

    Raises:
        ConfigError: it is malformed, too long, or open to more than this machine without keys.
    """
    if endpoint.startswith("ipc://"):
        path = endpoint.removeprefix("ipc://")
        if not path.startswith("/"):
            raise ConfigError(f"{endpoint}: an ipc endpoint needs an absolute path.")
        if len(os.fsencode(path)) > _MAX_IPC_PATH_BYTES:
            raise ConfigError(
                f"{endpoint}: the path is {len(os.fsencode(path))} bytes long, and sockets take "
                f"at most {_MAX_IPC_PATH_BYTES}. Choose a shorter one."
            )
        return endpoint
    if endpoint.startswith("tcp://"):
        return _check_tcp(endpoint, has_keys)
    raise ConfigError(f"{endpoint}: expected ipc:///PATH or tcp://127.0.0.1:PORT.")


def _check_tcp(endpoint: str, has_keys: bool) -> str:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise ConfigError(f"{endpoint}: the port must be a number from 1 to 65535.")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise ConfigError(f"{endpoint}: write an IPv6 address in brackets, as tcp://[::1]:{port}.")
    if host == "localhost":
        host, endpoint = "127.0.0.1", f"tcp://127.0.0.1:{port}"
    try:
        address = ipaddress.IPv6Address(host[1:-1]) if bracketed else ipaddress.IPv4Address(host)
    except ValueError:
        address = None
    if address is not None and address.is_loopback:
        return endpoint
    if not has_keys:
        raise ConfigError(
            f"{endpoint}: only loopback addresses are open to plain TCP, because anyone who can "
            f"reach the port could feed the training. Use tcp://127.0.0.1:{port}, or make keys "
            f"with '{PROGRAM} keys' and give --keys."
        )
    if address is None and host != "*" and not _HOST_NAME.fullmatch(host):
        raise ConfigError(f"{endpoint}: {host!r} is neither an address nor a name of a host.")
    return endpoint


def connectable(endpoint: str) -> str:
    """Where to connect to on this host when a model process listens on all of its addresses."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    here = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host)
    return f"tcp://{here}:{port}" if here and endpoint.startswith("tcp://") else endpoint


def make_private_directory(endpoint: str) -> None:
    """Create the directories of an ipc endpoint for this user alone.

    Raises:
        ConfigError: the directory exists and is not ours alone.
    """
    if not endpoint.startswith("ipc://"):
        return
    directory = Path(endpoint.removeprefix("ipc://")).parent
    for path in (directory.parent, directory):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigError(
                f"{endpoint}: {path} can't be made ({error.strerror}). {CHOOSE_ANOTHER}"
            ) from None
    found, above = directory.lstat(), directory.parent.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or stat.S_IMODE(found.st_mode) & 0o077
        or above.st_uid not in (0, os.getuid())  # its owner could put another directory there
    ):
        raise ConfigError(
            f"{directory} is open to other users, so its socket would be too. "
            f"Run 'chmod 700 {directory}' or choose another endpoint."
        )


def claim_endpoint(endpoint: str) -> int:
    """Take an ipc endpoint for as long as the returned descriptor is open.

    ZeroMQ itself would take the socket file over from whoever listens there, without a word.

    Raises:
        ConfigError: another process has it.
    """
    path = _claim_path(endpoint)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"{endpoint}: another run is listening there. {CHOOSE_ANOTHER}"
            ) from None
        os.close(descriptor)  # whoever had it before removed the file just now


def take_endpoint(endpoint: str) -> int | None:
    """Make an ipc endpoint's directory and claim it, as above; TCP needs no claim."""
    if not endpoint.startswith("ipc://"):
        return None
    for _ in range(_TRIES):
        make_private_directory(endpoint)
        try:
            return claim_endpoint(endpoint)
        except FileNotFoundError:
            continue  # someone tidied up just now
    raise ConfigError(f"{endpoint}: its directory goes away again and again. {CHOOSE_ANOTHER}")


def remove_stale_sockets() -> None:
    """Remove what runs of this user that were killed, launcher and all, have left behind."""
    for socket_path in _runtime_directory().glob("*/stream*"):
        if socket_path.suffix == ".lock":
            continue
        try:
            is_old = time.time() - socket_path.parent.stat().st_mtime > _STALE_AFTER_S
        except OSError:
            continue
        if is_old:
            remove_socket(f"ipc://{socket_path}")


def refuse_if_taken(endpoint: str) -> None:
    """See that nobody listens there, before anything heavy starts.

    Raises:
        ConfigError: someone does.
    """
    if endpoint.startswith("ipc://"):
        if _claim_path(endpoint).exists():
            os.close(claim_endpoint(endpoint))
        return
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]").replace("*", ""), int(port)))
        except OSError as error:
            raise ConfigError(
                f"{endpoint}: can't listen there ({error.strerror}). "
                f"Is another run using it? {CHOOSE_ANOTHER}"
            ) from None


def remove_socket(endpoint: str) -> None:
    """Remove an ipc endpoint's files, and its directory if a run made one, unless it is in use."""
    if not endpoint.startswith("ipc://"):
        return
    path = Path(endpoint.removeprefix("ipc://"))
    try:
        claim = claim_endpoint(endpoint)
    except (ConfigError, OSError):
        return
    path.unlink(missing_ok=True)
    _claim_path(endpoint).unlink(missing_ok=True)
    os.close(claim)
    if path.parent.parent.name == f"tandem-{os.getuid()}":
        try:
            path.parent.rmdir()
        except OSError:
            pass


def _claim_path(endpoint: str) -> Path:
    return Path(endpoint.removeprefix("ipc://") + ".lock")


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
