"""Options that had another name before: still understood, in files and as flags, and said."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Renamed:
    """An on-off option that a choice has taken the place of."""

    section: str
    old: str
    new: str
    when_on: str
    when_off: str

    @property
    def old_flag(self) -> str:
        return "--" + self.old.replace("_", "-")

    def choice(self, value: bool) -> str:
        """The new option's value that does what this one of the old did."""
        return self.when_on if value else self.when_off

    def in_words(self) -> str:
        """What a person who used the old name should use from now on."""
        return (
            f"{self.old_flag} is now called --{self.new.replace('_', '-')}, and was read as "
            f"{self.when_on}; so is {self.old} = true in a file"
        )


RENAMED = (Renamed("model", "mixed_precision", "precision", when_on="auto", when_off="tf32"),)


def renamed(section: str, key: str) -> Renamed | None:
    """The option that this key was before, if it was one."""
    return next((each for each in RENAMED if (each.section, each.old) == (section, key)), None)


def taken_as(each: Renamed, value: Any) -> tuple[str, str]:
    """Key and value of today for a value of the old key.

    Raises:
        ValueError: the old option was true or false.
    """
    if not isinstance(value, bool):
        raise ValueError
    return each.new, each.choice(value)
