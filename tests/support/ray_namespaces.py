"""Hosts of a Ray cluster as network namespaces of this machine, joined by a switch that can be cut.

They have a token, since their addresses are not loopback. Nothing outside is reached or can reach them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NUM_HOSTS = 3
PORT = 6379


def why_not_here() -> str:
    """Why namespaces can't be made; empty if they can."""
    if os.geteuid() or not shutil.which("ip"):
        return "network namespaces need root and the command ip (Debian's iproute2)"
    name = f"tandem-{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return f"network namespaces can't be made here ({made.stderr.decode().strip()})"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


class RayNamespaces:
    """The first is the head, where the launcher runs and nothing else."""

    address = f"10.77.0.1:{PORT}"

    def __init__(self) -> None:
        self._name = f"tandem-{secrets.token_hex(3)}"
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp")
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_prestart_worker_first_driver": "0",
            "HOME": self._folder.name,
            "RAY_TMPDIR": self._folder.name,
        }
        self._ip("netns", "add", self._switch)
        self._ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        self._ip("-n", self._switch, "link", "set", "br0", "up")
        for number in range(NUM_HOSTS):
            self._add(number)
        self._ray(0, "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
        for number in range(1, NUM_HOSTS):
            self._ray(number, f"--address={self.address}", "--num-cpus=2")

    @property
    def _switch(self) -> str:
        return f"{self._name}-switch"

    def _host(self, number: int) -> str:
        return f"{self._name}-{number}"

    def command(self, number: int, *words: str) -> list[str]:
        """A command that runs on a host."""
        return ["ip", "netns", "exec", self._host(number), *words]

    def cut(self, number: int) -> None:
        """Nothing comes or goes any more; what runs over there does not hear of it."""
        self._ip("-n", self._switch, "link", "set", f"p{number}", "down")

    def mend(self, number: int) -> None:
        self._ip("-n", self._switch, "link", "set", f"p{number}", "up")

    def _add(self, number: int) -> None:
        host, port = self._host(number), f"p{number}"
        self._ip("netns", "add", host)
        self._ip("-n", self._switch, "link", "add", port, "type", "veth",
                 "peer", "name", "eth0", "netns", host)  # fmt: skip
        self._ip("-n", self._switch, "link", "set", port, "master", "br0", "up")
        self._ip("-n", host, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip("-n", host, "link", "set", device, "up")

    def _ray(self, number: int, *flags: str) -> None:
        program = str(Path(sys.executable).with_name("ray"))
        command = self.command(number, program, "start", *flags)
        command += [f"--node-ip-address=10.77.0.{number + 1}", "--disable-usage-stats",
                    "--object-store-memory=80000000"]  # fmt: skip
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def close(self) -> None:
        for name in (*map(self._host, range(NUM_HOSTS)), self._switch):
            found = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            )
            for pid in found.stdout.split():  # only what runs in a namespace of ours
                subprocess.run(["kill", "-9", pid], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self._folder.cleanup()
