"""What workers are called: a name tells the role and a number, and is made and read here alone."""

from __future__ import annotations

import enum
import re


class Role(enum.StrEnum):
    """What a worker does in a run."""

    DATA = "data"
    MODEL = "model"
    SPARE = "spare"  # a data process that stands by


_STEMS = {Role.DATA: "data_worker", Role.MODEL: "model_worker", Role.SPARE: "data_spare"}
MODEL_WORKER = _STEMS[Role.MODEL]
DATA_WORKER = _STEMS[Role.DATA]  # where there is no telling which


def worker_name(role: Role, number: int) -> str:
    """The name of one of several, counted from 0."""
    return f"{_STEMS[role]}-{number}"


def role_of(name: str) -> Role | None:
    """The role of the worker that is called this; None for any other name."""
    stem = re.sub(r"-\d+$", "", name)
    return next((role for role, each in _STEMS.items() if each == stem), None)


def number_of(name: str) -> int:
    """Which of several it is; 0 for the only one."""
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else 0
