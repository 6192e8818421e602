"""Three hosts of a Ray cluster on this machine, in processes of their own.

Run as a program it is those hosts: `python ray_hosts.py FOLDER`. It prints one line of JSON when they
are there, and one for each order on its standard input: `kill N` ends the raylet of host N with
SIGKILL, `mend N` puts another host in its place, `behead 0` ends what makes the head the head, `stop`
ends all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NUM_HOSTS = 3  # the first is the head, where the launcher runs and nothing else
WHY_SKIPPED = "Ray is not installed (python -m pip install -r requirements-ray.lock)"
_OBJECT_STORE_BYTES = 80 << 20


class RayHosts:
    """Killed and ended from here."""

    def __init__(self) -> None:
        # A short name: sockets live below it.
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp")
        self._log = Path(self._folder.name) / "hosts.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, self._folder.name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
            )  # fmt: skip
        self.address = str(self._told()["address"])

    def kill(self, number: int) -> None:
        """The host's raylet, as when a host is lost."""
        self._order("kill", number)

    def mend(self, number: int) -> None:
        """Put another host in the place of one that was killed."""
        self._order("mend", number)

    def behead(self) -> None:
        """The cluster's head is gone, and does not come back."""
        self._order("behead", 0)

    def _order(self, *words: str | int) -> None:
        print(*words, file=self._process.stdin, flush=True)
        assert self._told() == {"done": [*words]}

    def _told(self) -> dict:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise AssertionError(self._log.read_text(errors="replace"))

    def close(self) -> None:
        self._process.communicate("stop\n", timeout=60)
        self._folder.cleanup()


def _run(folder: str) -> None:
    # Not a word to anyone outside, and nothing in the home of whoever runs the tests.
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0", HOME=folder, RAY_TMPDIR=folder, RAY_AUTH_MODE="disabled"
    )
    # Workers that nobody has asked for yet.
    os.environ.update(RAY_prestart_worker_first_driver="0", RAY_enable_worker_prestart="0")
    from ray.cluster_utils import Cluster

    def host(number: int) -> dict:
        # Ray would take 127.0.0.1 for the address of this machine on its network.
        return {
            "node_ip_address": f"127.0.0.{2 + number}",
            "object_store_memory": _OBJECT_STORE_BYTES,
        }

    cluster = Cluster(
        initialize_head=True,
        head_node_args={**host(0), "num_cpus": 0, "include_dashboard": False},
    )
    hosts = [cluster.head_node]
    hosts += [cluster.add_node(num_cpus=2, **host(n)) for n in range(1, NUM_HOSTS)]
    print(json.dumps({"address": cluster.address}), flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        if order == "stop":
            break
        number = int(numbers[0])
        if order == "behead":
            cluster.head_node.kill_gcs_server()
        elif order == "kill":
            hosts[number].kill_raylet()
        else:
            cluster.remove_node(hosts[number], allow_graceful=False)
            hosts[number] = cluster.add_node(num_cpus=2, **host(number))
        print(json.dumps({"done": [order, number]}), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    _run(sys.argv[1])
