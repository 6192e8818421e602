"""The hosts of a cluster that were found fit for a run; ones that join later are looked at too."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable

from shared.config.settings import Config
from shared.errors import InputError
from shared.places.host_check import Sight, look, what_to_look_at, why_not
from shared.places.ray_cluster import Host, RayCluster
from shared.run.directory import RunDirectory
from shared.run.files import write_file

_LOOKS_WITHIN_S = 60.0
_MARK = ".host-check-"


class Hosts:
    """Safe to use from several threads."""

    def __init__(
        self,
        cluster: RayCluster,
        run: RunDirectory,
        config: Config,
    ):
        self._cluster = cluster
        self._run = run
        self._remove_marks()  # of a launcher that was killed; this one has the run's lock
        self._mark = f"{_MARK}{secrets.token_hex(8)}"
        content = secrets.token_hex(16)
        write_file(run.path / self._mark, content.encode())
        self._look = what_to_look_at(run, config, self._mark, content)
        self._ours = look(self._look)
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}  # of each node that was looked at; empty: it is fit

    def look(self, say: Callable[[str], None]) -> None:
        """Look at every host.

        Raises:
            InputError: none can be used.
        """
        fit = self.fit(say)
        if not fit:
            listed = "".join(f"\n   {reason}" for reason in self._reasons.values())
            raise InputError(f"no host of the cluster can be used:{listed}")
        say(f"🌐 Ray: {len(fit)} of {len(self._reasons)} hosts can be used")

    def fit(self, say: Callable[[str], None]) -> list[str]:
        """The nodes that live and can be used; `say` is told of those that can't, once."""
        with self._lock:
            alive = self._cluster.hosts()
            new = [host for host in alive if host.node not in self._reasons]
            if new:
                self._look_at(new, say)
            return [host.node for host in alive if self._reasons.get(host.node) == ""]

    def close(self) -> None:
        self._remove_marks()

    def _remove_marks(self) -> None:
        for path in self._run.path.glob(f"{_MARK}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def _look_at(self, hosts: list[Host], say: Callable[[str], None]) -> None:
        answers = self._cluster.ask_hosts(hosts, look, self._look, _LOOKS_WITHIN_S)
        for host in hosts:
            found = answers.get(host.node)
            if isinstance(found, Sight):
                reason, name = why_not(self._look, self._ours, found), found.host
            else:
                reason, name = _in_words(found), host.address
            self._reasons[host.node] = f"{name} ({host.address}): {reason}" if reason else ""
            if reason:
                say(f"⚠️  Host {name} ({host.address}) is not used: {reason}")


def _in_words(found: object) -> str:
    if found is None:
        return (
            f"it did not answer within {_LOOKS_WITHIN_S:.0f} s. Look at its Ray with 'ray status'"
        )
    return (
        "this program can't be found there. Install it on every host, at the same path or with "
        "'python -m pip install'"
    )
