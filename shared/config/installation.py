"""How the program is installed here: what its commands are called, and where the files with it are.

In a checkout it is `python launcher.py`, with its files around it. Installed by pip it is `tandem`, and
the same files lie in share/tandem of the environment.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = "requirements.lock"
GPU_LOCK, BLACKWELL_LOCK = "requirements-gpu.lock", "requirements-gpu-blackwell.lock"
IS_CHECKOUT = (ROOT / "setup.cfg").is_file() and (ROOT / LOCK).is_file()
PROGRAM_VARIABLE = "TANDEM_PROGRAM"  # what the launcher was called, for its children

_DISTRIBUTION, _COMMAND, _SCRIPT = "tandem-tts", "tandem", "python launcher.py"
_SHARE = "share/tandem/"
# What setup.cfg has as data files.
_PATTERNS = ("configs/*.toml", "examples/*.py", "requirements*.lock")


def program_name(called: str, told: str | None, is_checkout: bool) -> str:
    """How its user calls the program: by the first word of the command, or as the launcher told."""
    if told in (_COMMAND, _SCRIPT):
        return told
    return _COMMAND if not is_checkout or Path(called).name == _COMMAND else _SCRIPT


PROGRAM = program_name(sys.argv[0], os.environ.get(PROGRAM_VARIABLE), IS_CHECKOUT)


def how_to_install(python: str) -> str:
    """What to do where this interpreter lacks what the program needs."""
    if IS_CHECKOUT:
        return (
            f"This Python ({python}) lacks what 'make setup' installs. Say 'source "
            ".venv/bin/activate' first, or write .venv/bin/python instead of python."
        )
    return (
        f"This Python ({python}) lacks packages that {_DISTRIBUTION} was installed with. Install it "
        "again, into an environment of its own: python -m pip install --force-reinstall WHEEL"
    )


def shipped_files() -> dict[str, Path]:
    """The files that come with the program, by the name that they have in a checkout."""
    if IS_CHECKOUT:
        found = sorted(path for pattern in _PATTERNS for path in ROOT.glob(pattern))
        return {path.relative_to(ROOT).as_posix(): path for path in found}
    try:
        installed = files(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    return {
        file.as_posix().rpartition(_SHARE)[2]: Path(os.path.normpath(file.locate()))
        for file in installed
        if _SHARE in file.as_posix()
    }


def config_file(given: str) -> Path:
    """The file that --config names; without one there, the ready one of that name."""
    path = Path(given)
    if not path.exists() and str(path.parent) in (".", "configs"):
        return shipped_files().get(f"configs/{path.stem}.toml", path)
    return path


def pip_install(lock: str) -> str:
    """The command that installs what one of the files of versions names, to be typed anywhere."""
    path = lock if IS_CHECKOUT else shipped_files().get(lock, lock)
    return f"python -m pip install -r {path}"
