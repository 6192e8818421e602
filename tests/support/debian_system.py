"""A new Debian system in a folder, in which commands run about as they do in a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

BUILD_DEADLINE_S = 1800


def why_not() -> str:
    """Why there can be none here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can make a system in a folder"
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            return f"{program} is not installed here (Debian has it)"
    return ""


def mirror_of(suite: str) -> str:
    """Where this machine gets that Debian from; empty if it does not."""
    asked = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = re.search(rf"^{suite} (http\S+)$", said, re.MULTILINE)
    return found[1] if found else ""


def settings_of_pip() -> dict[str, str]:
    """What pip is told on this machine, as environment variables."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(?:global|user|:env:)\.([\w-]+)='(.*)'$", said, re.MULTILINE)
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in found}


class DebianSystem:
    """Commands run in it as process 1 of a namespace of their own, with what pip needs from outside."""

    def __init__(self, root: Path, suite: str, mirror: str):
        self.root = root
        command = ["debootstrap", "--variant=minbase", suite, str(root), mirror]
        made = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_DEADLINE_S)
        assert made.returncode == 0, made.stdout[-3000:] + made.stderr
        for file in Path("/etc/apt/apt.conf.d").iterdir():
            if "Acquire" in file.read_text():
                shutil.copy(file, root / "etc" / "apt" / "apt.conf.d")
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        self._pip = settings_of_pip()
        places = re.findall(r"(?:^|\s)(?:file://)?(/[^\s]+)", "\n".join(self._pip.values()))
        self._lent = [Path(place) for place in dict.fromkeys(places) if Path(place).exists()]
        self._lent = [place.parent if place.name == "simple" else place for place in self._lent]

    def start(
        self, words: Iterable[str], environment: dict[str, str], cwd: str = "/", user: str = "0:0"
    ) -> subprocess.Popen[str]:
        """Start a command in it; what it says is one stream."""
        mounts = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        for place in self._lent:
            inside = self.root / place.relative_to("/")
            mounts.append(f"mount --bind {place} {inside}")
            if place.is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            else:
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.touch()
        told = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        told |= {**self._pip, **environment}
        told["PATH"] = told["PATH"].replace("$PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        inner = ["chroot", f"--userspec={user}", str(self.root), "/usr/bin/env", "-i"]
        inner += [f"{name}={value}" for name, value in told.items()]
        inner += ["/bin/sh", "-c", 'cd "$0" && exec "$@"', cwd, *words]
        script = "\n".join([*mounts, 'exec "$@"'])
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return subprocess.Popen(
            [*apart, "/bin/sh", "-ec", script, "sh", *inner],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self, words: Iterable[str], environment: dict[str, str], cwd: str = "/", user: str = "0:0"
    ) -> str:
        """The same, to its end, which must be a good one; returns what it said."""
        process = self.start(words, environment, cwd, user)
        try:
            said, _ = process.communicate(timeout=BUILD_DEADLINE_S)
        finally:
            process.kill()
        assert process.returncode == 0, said[-5000:]
        return said
