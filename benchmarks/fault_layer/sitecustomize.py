"""Loaded by every Python of a disturbed run: makes calls that write checkpoints fail on demand.

TANDEM_DISK_FAULTS names a file. When it exists, it holds three numbers: the errno to fail with, how
many of the calls that touch a checkpoint still work, and how many fail after them. The file is
removed when the last of them has failed, and its name with `.done` gets a line.
"""

import os

_CONTROL = os.environ.get("TANDEM_DISK_FAULTS", "")
_CALLS = ("mkdir", "open", "write", "fsync", "link", "rename")
_real = {name: getattr(os, name) for name in (*_CALLS, "close", "unlink")}
_paths: dict[int, str] = {}  # of descriptors within checkpoints
_left: list[int] | None = None  # errno, calls that still work, calls that fail


def _fails() -> int:
    """The errno that this call must fail with, or 0."""
    global _left
    if _left is None:
        try:
            with open(_CONTROL) as file:
                _left = [int(word) for word in file.read().split()]
        except OSError:
            return 0
        if len(_left) != 3:
            _left = None
            return 0
    if _left[1] > 0:
        _left[1] -= 1
        return 0
    number = _left[0]
    _left[2] -= 1
    if _left[2] <= 0:
        _left = None
        _real["unlink"](_CONTROL)
        with open(_CONTROL + ".done", "a") as file:
            file.write(f"{number}\n")
    return number


def _is_checkpoint(place) -> bool:
    if isinstance(place, int):
        return place in _paths
    return isinstance(place, (str, os.PathLike)) and "/checkpoints/" in os.fspath(place)


def _wrap(name):
    real = _real[name]

    def call(place, *arguments, **settings):
        if not _is_checkpoint(place):
            return real(place, *arguments, **settings)
        number = _fails()
        if number:
            if name == "write":
                real(place, bytes(arguments[0])[: len(arguments[0]) // 2])  # torn
            raise OSError(number, os.strerror(number))
        result = real(place, *arguments, **settings)
        if name == "open":
            _paths[result] = os.fspath(place)
        return result

    return call


def _close(descriptor):
    _paths.pop(descriptor, None)
    return _real["close"](descriptor)


if _CONTROL:
    for _name in _CALLS:
        setattr(os, _name, _wrap(_name))
    os.close = _close
