"""The errors that users meet: each is one or two plain sentences and knows its exit code."""

from __future__ import annotations

import enum


class Trouble(enum.StrEnum):
    """What sort of thing went wrong, for those who say what to try first."""

    MEMORY = "memory"  # there was not enough, of the machine or of the device
    DEVICE = "device"  # the GPU, its driver or its libraries
    KILLED = "killed"  # by SIGKILL, from outside
    SILENCE = "silence"  # a process that does not answer
    OTHER = "other"


class TandemError(Exception):
    """Something ended the run; the message says what and how to mend it."""

    exit_code = 1
    trouble = Trouble.OTHER

    def __init__(self, message: str, trouble: Trouble | None = None):
        super().__init__(message)
        if trouble is not None:
            self.trouble = trouble


class InputError(TandemError):
    """A flag, file or data set that makes the run impossible, found before anything heavy began."""

    exit_code = 2


class ConfigError(InputError):
    """A flag or a key of a configuration file is unknown, of the wrong type or out of range."""


class DataError(InputError):
    """A data set, its metadata or its index can't be used."""


class GpuError(TandemError):
    """The GPUs that were asked for are not there."""

    trouble = Trouble.DEVICE


class PlacementError(GpuError):
    """Multi-GPU mode was asked for with flags that these GPUs can't serve."""


class TaskError(InputError):
    """A task's own code can't be used: a method is missing, fails, or returns what it must not."""


class ReadError(TandemError):
    """One example can't be read. `transient` errors are worth another try."""

    def __init__(self, message: str, *, transient: bool = False):
        super().__init__(message)
        self.transient = transient


class CheckpointError(TandemError):
    """A checkpoint could not be written, or none of those present could be read."""


class ProtocolError(TandemError):
    """A message from the other side is malformed or does not belong to this run."""


class VersionError(ProtocolError):
    """The other side speaks another version of the protocol."""
