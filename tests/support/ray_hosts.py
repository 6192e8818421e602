"""Three hosts of a Ray cluster on this machine, in processes of their own.

Run as a program it is those hosts: `python ray_hosts.py FOLDER`. It prints one line of JSON when they
are there, and one for each order on its standard input: `mend` puts another host in the place of each
that is lost, `stop` ends all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

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

    @staticmethod
    def lose_host_of(worker: psutil.Process) -> None:
        """Kill the raylet of the host on which a worker lives, as when that is lost."""
        raylet = worker.parent().parent()  # of the actor
        assert "raylet" in raylet.name(), raylet
        raylet.kill()

    def mend(self) -> None:
        """Put another host in the place of each that was lost."""
        print("mend", file=self._process.stdin, flush=True)
        assert self._told() == {"mended": True}

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
        if line.strip() == "stop":
            break
        for number, each in enumerate(hosts):
            if each.all_processes["raylet"][0].process.poll() is not None:
                cluster.remove_node(each, allow_graceful=False)
                hosts[number] = cluster.add_node(num_cpus=2, **host(number))
        print(json.dumps({"mended": True}), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    _run(sys.argv[1])
