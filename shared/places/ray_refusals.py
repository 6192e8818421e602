"""Which Ray clusters are refused: whoever reaches an open one can run anything on its hosts."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from shared.config.settings import Config
from shared.errors import ConfigError
from shared.places.ray_cluster import address_of

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+):([0-9]{1,5})")
_TOKEN_FILE = ".ray/auth_token"  # in the home


def check_ray_flags(config: Config) -> None:
    """See that the flags can be meant for a cluster, and that it is closed to strangers.

    Raises:
        ConfigError: they can't, or it is not.
    """
    run, data = config.run, config.data
    if data.data_gpus or data.model_gpus:
        raise ConfigError(
            "--data-gpu and --model-gpu are for one machine. With --engine ray, data processes run "
            "on CPUs; give --model-replicas N to train on N GPUs of this host."
        )
    if run.endpoint or run.keys:
        raise ConfigError(
            "--endpoint and --keys are not used with --engine ray, which makes both for each run. "
            "Leave them out."
        )
    if run.ray_address.startswith("ray://"):
        raise ConfigError(
            f"--ray-address {run.ray_address}: is the address of Ray's client, through which no "
            "process can be watched. Start the command on a host of the cluster, with auto."
        )
    if run.ray_address != "auto" and not _HOST_AND_PORT.fullmatch(run.ray_address):
        raise ConfigError(f"--ray-address {run.ray_address}: expected auto or HOST:PORT.")
    address = address_of(run.ray_address)
    if not address:
        raise ConfigError(
            "--ray-address auto: no Ray runs on this host. Start it with 'ray start --head', or "
            "give --ray-address HOST:PORT."
        )
    if not _is_loopback(address) and not asks_for_token() and not run.trusted_network:
        raise ConfigError(
            f"--ray-address {address}: beyond this machine, and without a token anyone who reaches "
            "a Ray cluster can run programs on its hosts. Start Ray with RAY_AUTH_MODE=token on "
            "every host and set it here too, or say --trusted-network."
        )


def asks_for_token() -> bool:
    """Whether this process uses Ray's token authentication."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def mend_token_file(say: Callable[[str], None]) -> None:
    """Ray writes its token for everyone to read: keep it to its owner."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / _TOKEN_FILE)
    try:
        found = path.stat()
        if not stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.getuid():
            return
        path.chmod(0o600)
    except OSError:
        return
    say(
        f"⚠️  {path}: others could read Ray's token; only you can now. Make a new one if they may have"
    )


def _is_loopback(address: str) -> bool:
    """Whether nobody on a network can reach it."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        # For these Ray takes the address that this host has on its network, and listens there.
        return ipaddress.ip_address(host).is_loopback and host not in ("127.0.0.1", "::1")
    except ValueError:
        return False
