"""One definition of an option gives its flag, TOML key, default, help text and check."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable
from typing import Any

from shared.errors import ConfigError

AUTO_WORD = "auto"


class _Auto(int):
    """A number that is to be found out; 0, and yet not the 0 that somebody gave."""


AUTO = _Auto(0)

# What people want of a run, in the order in which the help has it, and its heading there.
TOPICS = {
    "data": "the data: what is used, and how it is looked at",
    "model": "the model: what is trained, and from where",
    "budget": "the budget: how long it trains, and how often it validates",
    "learning": "learning: how the weights move",
    "gpus": "GPUs, memory and precision",
    "pace": "pace: how fast batches come",
    "saving": "saving, continuing, and surviving",
    "seeing": "what it shows and writes down",
    "hosts": "several machines, and workers started by hand",
    "more": "everything else",
}


@dataclasses.dataclass(frozen=True)
class OptionRule:
    """What a value of one option may be; `kind` is one of int, int or auto, float, str, bool, switch, gpus."""

    kind: str
    help: str
    flag: str = ""  # empty: the field's name with dashes
    optional: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    saved: bool = True  # False: belongs to one command, not to the run (never in config.toml)
    in_files: bool = True  # False: only the command line may say it
    topic: str = "more"  # what people look for it under in the help: one of TOPICS
    first: int = 0  # its place among the flags that matter most; 0 = not one of them
    value: str = ""  # how the help calls its value; empty: by its kind
    # What of a run it decides: what is in the "index", only how files are looked at for it
    # ("look"), what is in the batches of the "stream", or the "model"; empty: nothing of them.
    decides: str = ""
    is_path: bool = False  # what it leads to counts, which may have another path by now

    def expected(self) -> str:
        """The accepted values in words, for messages: 'a whole number of at least 1'."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = {
            "int": "a whole number",
            "int or auto": "auto or a whole number",
            "float": "a finite number",
            "str": "text",
            "bool": "true or false",
            "gpus": "a GPU index such as 0, or several such as 0,2",
        }[self.kind]
        if self.minimum is not None and self.maximum is not None:
            return f"{words} from {self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f"{words} of at least {self.minimum:g}"
        return words

    @property
    def value_in_help(self) -> str:
        """What stands for the value after the flag."""
        if self.choices and not self.value:
            return "{" + ",".join(self.choices) + "}"
        return self.value or {"str": "TEXT", "gpus": "GPU"}.get(self.kind, "N")

    def default_in_help(self, default: Any) -> str:
        """The default as it stands behind the help text; empty where that has words for it."""
        if default is None:
            return ""
        if isinstance(default, bool):
            return " [on]" if default else " [off]"
        return f" [{default:g}]" if isinstance(default, float) else f" [{default}]"

    def accept(self, value: Any) -> Any:
        """Return the value in its final type.

        Raises:
            ValueError: it is not what this option takes.
        """
        if value is None and self.optional:
            return None
        value = _ACCEPT[self.kind](value)
        if self.choices and value not in self.choices:
            raise ValueError
        numbers = value if isinstance(value, tuple) else (value,)
        if isinstance(value, _Auto):
            return AUTO
        if self.kind in ("int", "int or auto", "float", "gpus"):
            if self.minimum is not None and any(n < self.minimum for n in numbers):
                raise ValueError
            if self.maximum is not None and any(n > self.maximum for n in numbers):
                raise ValueError
        return value

    def parse(self, text: str) -> Any:
        """Read the value from the command line; numbers may be written as text there.

        Raises:
            ValueError: it is not what this option takes.
        """
        if self.kind == "int" or (self.kind == "int or auto" and text != AUTO_WORD):
            return self.accept(int(text))
        if self.kind == "float":
            return self.accept(float(text))
        return self.accept(text)


def _accept_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _accept_int_or_auto(value: Any) -> int:
    return AUTO if value == AUTO_WORD or isinstance(value, _Auto) else _accept_int(value)


def _accept_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    value = float(value)
    if not math.isfinite(value):
        raise ValueError
    return value


def _accept_str(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    value.encode()  # refuses half characters, which no configuration file could hold
    return value


def _accept_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _accept_switch(value: Any) -> str:
    """On, off, or auto: to be found out."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return _accept_str(value)


def _accept_gpus(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        value = [int(part) for part in value.split(",")]
    if isinstance(value, int):
        value = [value]
    indices = tuple(_accept_int(index) for index in value) if _is_list(value) else ()
    if not indices or len(set(indices)) != len(indices):
        raise ValueError
    return indices


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, dict))


_ACCEPT = {
    "int": _accept_int,
    "int or auto": _accept_int_or_auto,
    "float": _accept_float,
    "str": _accept_str,
    "bool": _accept_bool,
    "switch": _accept_switch,
    "gpus": _accept_gpus,
}


def option(kind: str, default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field that is also a flag and a TOML key; `limits` as in `OptionRule`."""
    rule = OptionRule(kind=kind, help=help, optional=default is None, **limits)
    return dataclasses.field(default=default, metadata={"rule": rule})


def rules_of(section: type) -> dict[str, OptionRule]:
    """The options of a configuration section by field name."""
    return {
        field.name: dataclasses.replace(
            field.metadata["rule"],
            flag=field.metadata["rule"].flag or "--" + field.name.replace("_", "-"),
        )
        for field in dataclasses.fields(section)
    }


def check_section(section: Any) -> None:
    """Bring every field of a frozen section into its final type (for `__post_init__`).

    Raises:
        ConfigError: a value is not what its option takes; names the field.
    """
    for name, rule in rules_of(type(section)).items():
        value = getattr(section, name)
        try:
            object.__setattr__(section, name, rule.accept(value))
        except (ValueError, TypeError, OverflowError):
            raise ConfigError(
                f"{type(section).__name__}.{name}: found {value!r}; expected {rule.expected()}."
            ) from None


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one of the known words that was probably meant, if any was."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for a near miss, else nothing."""
    close = closest(word, known)
    return f" Did you mean {close}?" if close else ""


def paths_in(section: Any) -> dict[str, str | None]:
    """Name and value of the options of a section that are paths."""
    rules = rules_of(type(section)).items()
    return {name: getattr(section, name) for name, rule in rules if rule.is_path}


def decided(section: Any, *what: str) -> dict[str, Any]:
    """Name and value of the options of a section that decide any of these.

    Whatever asks whether two runs, indexes or batches can be the same reads it here: resume, the
    index cache, admission, checkpoints, --init-from.
    """
    return {
        name: getattr(section, name)
        for name, rule in rules_of(type(section)).items()
        if rule.decides in what
    }
