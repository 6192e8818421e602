"""What only some users need, and how they get it."""

from __future__ import annotations

import importlib.util

from shared.config.installation import IS_CHECKOUT
from shared.errors import InputError

# Extra -> the packages that it is there for.
_NEEDS = {
    "onnx": ("tf2onnx", "onnx", "onnxruntime"),
    "serve": ("onnxruntime", "starlette", "uvicorn", "prometheus_client"),
}


def want_extra(name: str) -> None:
    """See that an extra is there.

    Raises:
        InputError: it is not; says how it is installed.
    """
    missing = [package for package in _NEEDS[name] if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed. Say "
            f"{_how_to_install(name, missing)}."
        )


def _how_to_install(name: str, missing: list[str]) -> str:
    if IS_CHECKOUT:
        return f"'python -m pip install --editable .[{name}]' in the folder of launcher.py"
    return f"'python -m pip install {' '.join(missing)}'"
