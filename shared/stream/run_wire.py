"""Where batches flow in a run whose workers live on several hosts, with keys made for it alone."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Sequence

from shared.errors import ConfigError
from shared.stream.endpoints import endpoint_of_replica

_TRIES = 64


@dataclasses.dataclass(frozen=True)
class RunWire:
    """An endpoint for each replica of the model process, and who may use it."""

    endpoint: str  # of the first one
    server_keys: str = dataclasses.field(repr=False)  # the text of a key file
    client_keys: dict[str, str] = dataclasses.field(repr=False)  # by the name of a data process

    @classmethod
    def between_hosts(cls, address: str, num_replicas: int, data_workers: Sequence[str]) -> RunWire:
        """One that listens at this address of this host, on ports that are free now.

        Raises:
            ConfigError: there are none.
        """
        from shared.stream.keys import (
            keys_in_memory,
        )  # imports ZeroMQ, which no other run needs here

        port = _free_ports(address, num_replicas)
        return cls(f"tcp://{address}:{port}", *keys_in_memory(data_workers))

    def arguments(self, role: str, rank: int) -> list[str]:
        """The flags with which a worker finds its end."""
        if role == "model":
            return ["--listen", endpoint_of_replica(self.endpoint, rank)]
        return ["--connect", self.endpoint]

    def keys_of(self, worker: str) -> str:
        """The text of its key file: a data process has its own, every model process the same."""
        return self.client_keys.get(worker, self.server_keys)


def _free_ports(address: str, count: int) -> int:
    """The first of so many ports in a row on which nobody listens."""
    for _ in range(_TRIES):
        held: list[socket.socket] = []
        try:
            held.append(_bound(address, 0))
            first = held[0].getsockname()[1]
            held += [_bound(address, first + number) for number in range(1, count)]
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for each in held:
                each.close()
    raise ConfigError(f"{address}: no {count} free ports in a row were found to listen on.")


def _bound(address: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET)
    try:
        found.bind((address, port))
    except BaseException:
        found.close()
        raise
    return found
