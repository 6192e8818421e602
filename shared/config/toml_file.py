"""Reading and writing the configuration as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from shared.config.installation import PROGRAM
from shared.config.option import AUTO, AUTO_WORD, closest, nearest, rules_of
from shared.config.renamed import Renamed, renamed, taken_as
from shared.config.settings import SECTIONS, Config
from shared.errors import ConfigError
from shared.task.registry import DEFAULT, Task
from shared.whole_file import whole_file

Values = dict[str, dict[str, Any]]


def read_values(path: Path) -> Values:
    """The keys that a TOML file sets, checked, by section.

    Raises:
        ConfigError: names the file, the key, what was found and what was expected.
    """
    try:
        document = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text. Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:  # tomllib's own, or of a number of 5,000 digits
        raise ConfigError(f"{path}: is not valid TOML: {error}.") from None
    values: Values = {}
    for section, keys in document.items():
        if section not in SECTIONS:
            what = f"key {section} outside the sections"
            if isinstance(keys, dict):
                what = f"section [{section}]; the sections are"
            *most, last = SECTIONS
            raise ConfigError(
                f"{path}: unknown {what} {', '.join(most)} and {last}."
                f"{_home_of(section) or nearest(section, SECTIONS) or _meant(section)}"
            )
        if not isinstance(keys, dict):
            raise ConfigError(f"{path}: {section} must be a section, written [{section}].")
        for key, value in keys.items():
            home = _home(section, key)
            if before := renamed(home, key):
                key, value = _taken_as(path, before, value)
            values.setdefault(home, {})[key] = _read_key(path, home, key, value)
    return values


def _taken_as(path: Path, before: Renamed, value: Any) -> tuple[str, str]:
    try:
        return taken_as(before, value)
    except ValueError:
        raise ConfigError(
            f"{path}: {before.section}.{before.old}: found {value!r}; expected true or false."
        ) from None


def _home(section: str, key: str) -> str:
    """Where a key belongs: one of the task's may also stand among those of data and model."""
    if section in ("data", "model") and key in rules_of(SECTIONS["task"]):
        return "task"
    return section


def _home_of(key: str) -> str:
    """' It belongs in [X].' for a key of any section, else nothing."""
    home = [name for name, kind in SECTIONS.items() if key in rules_of(kind)]
    return f" It belongs in [{home[0]}]." if home else ""


def _meant(key: str) -> str:
    """What a key that is in no section may have meant, and where that belongs."""
    close = closest(key, [known for kind in SECTIONS.values() for known in rules_of(kind)])
    if close is None:
        return f" '{PROGRAM} --help-all' lists the flags; the keys have their names."
    return f" Did you mean {close}?{_home_of(close)}"


def _read_key(path: Path, section: str, key: str, value: Any) -> Any:
    rules = rules_of(SECTIONS[section])
    if key not in rules:
        hint = _home_of(key) or nearest(key, rules) or _meant(key)
        raise ConfigError(f"{path}: unknown key {key} in [{section}].{hint}")
    if not rules[key].in_files:
        raise ConfigError(
            f"{path}: {key} can't be set in a file. Name it on the command line, with "
            f"{rules[key].flag}."
        )
    try:
        return rules[key].accept(value)
    except (ValueError, TypeError, OverflowError):
        raise ConfigError(
            f"{path}: {section}.{key}: found {value!r}; expected {rules[key].expected()}."
        ) from None


def build_config(*layers: Values) -> Config:
    """A configuration from layers of values, later ones stronger."""
    merged: Values = {section: {} for section in SECTIONS}
    for layer in layers:
        for section, keys in layer.items():
            merged[section].update(keys)
    return Config(**{name: kind(**merged[name]) for name, kind in SECTIONS.items()})


def load_config(path: Path, task: str = DEFAULT) -> Config:
    """The configuration that a file describes, defaults filled in, of the task that was named."""
    return build_config(read_values(path), {"run": {"task": task}})


def dump_config(config: Config) -> str:
    """The complete configuration as TOML, each key under its help text.

    A task with data of its own has no use for the options of the data side that is built in.
    """
    lines = ["# What this run really uses. Either worker can be started from this file."]
    unused = "task" if Task.of(config.run.task).has_data else None
    for section, kind in SECTIONS.items():
        if section == unused:
            continue
        lines += ["", f"[{section}]"]
        for key, rule in rules_of(kind).items():
            if rule.saved:
                value = getattr(getattr(config, section), key)
                lines += [f"# {rule.help}", _toml_line(key, value)]
    return "\n".join(lines) + "\n"


def _toml_line(key: str, value: Any) -> str:
    if value is None:
        return f"# {key} is not set"
    if isinstance(value, tuple):
        value = list(value)
    if value is AUTO:
        value = AUTO_WORD
    # JSON may leave DEL as it is, TOML may not.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{key} = {text}"


def write_config(config: Config, path: Path) -> None:
    """Write the configuration whole or not at all."""
    with whole_file(path) as file:
        file.write(dump_config(config).encode())
