"""Installs the peers of the `bench` extra one by one: one that can't be had costs only itself.

    python benchmarks/install_peers.py

The benchmarks say of a peer that is missing that it is missing.
"""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent / "setup.cfg"


def main() -> None:
    setup = configparser.ConfigParser()
    setup.read(SETUP, encoding="utf-8")
    for peer in setup["options.extras_require"]["bench"].split():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--prefer-binary", peer]
        if subprocess.run(command, check=False).returncode:
            print(f"⚠️  {peer} could not be installed; the tables will say so", flush=True)


if __name__ == "__main__":
    main()
