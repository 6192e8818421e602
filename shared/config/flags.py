"""Flags to configuration values, from the same definitions as the TOML keys."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from shared.config.help_lines import HelpLines
from shared.config.installation import config_file
from shared.config.option import AUTO, TOPICS, OptionRule, nearest, rules_of
from shared.config.renamed import RENAMED, Renamed
from shared.config.settings import SECTIONS, Config, RunConfig
from shared.config.toml_file import Values, build_config, read_values
from shared.config.variables import FAKE_GPUS_VARIABLE
from shared.errors import ConfigError

_FIRST = "the flags that matter most"
_REMARKS = "remarks"  # beside the sections of what was read


class PlainParser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one sentence, raised as ConfigError."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **{"formatter_class": HelpLines, **settings})

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[0].upper()}{message[1:]}. Try --help.")

    def parse_all(self, arguments: list[str]) -> argparse.Namespace:
        """Parse, naming an unknown flag and the one that was probably meant."""
        namespace, unknown = self.parse_known_args(arguments)
        if unknown:
            flags = [flag for action in self._actions for flag in action.option_strings]
            word = unknown[0].split("=")[0]
            raise ConfigError(f"Unknown flag {word}.{nearest(word, flags)} Try --help.")
        return namespace


def refuse_command(word: str, commands: Iterable[str]) -> NoReturn:
    """Name a command that there is not, and what was probably meant by it."""
    if Path(word).exists():
        raise ConfigError(f"Unknown command {word}. Did you mean --train-data {word}?")
    raise ConfigError(f"Unknown command {word}.{nearest(word, commands)} Try --help.")


OF_THIS_MACHINE = "here"  # of --gpu-memory, where it has no number


def memory_named(text: str | None) -> int | str | None:
    """Of a --gpu-memory: megabytes, OF_THIS_MACHINE, or None where it was not given.

    Raises:
        ConfigError: it is none of them.
    """
    if text is None or text == OF_THIS_MACHINE:
        return text
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000_000:
        raise ConfigError(
            f"--gpu-memory: found {text!r}; expected megabytes, such as 12288, or nothing for the "
            "GPU of this machine."
        )
    return int(text)


def number_of_fake_gpus(text: str) -> int:
    """Of a --fake-gpus that a command reads by itself, by the rule of the option."""
    return _parsed(rules_of(RunConfig)["fake_gpus"], "--fake-gpus", text)


def _parsed(rule: OptionRule, flag: str, text: str) -> Any:
    try:
        return rule.parse(text)
    except (ValueError, OverflowError):
        raise ConfigError(f"{flag}: found {text!r}; expected {rule.expected()}.") from None


class _CheckedValue(argparse.Action):
    """Reads one option by its rule and files it under its section."""

    def __init__(
        self, *args: Any, rule: OptionRule, section: str, key: str, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._rule, self._section, self._key = rule, section, key
        self.accepted = rule.choices  # for who completes the flag

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # text, for a flag that takes any
        option_string: str | None = None,
    ) -> None:
        flag = option_string or self._rule.flag
        if flag.startswith("--no-") and values:
            raise ConfigError(f"{flag}: found {values!r}; it takes no value.")
        if self._rule.kind == "bool" or (self._rule.kind == "switch" and not values):
            value = self._rule.accept(not flag.startswith("--no-"))
        else:
            value = _parsed(self._rule, flag, values)
        namespace.values.setdefault(self._section, {})[self._key] = value


class _HelpAll(argparse.Action):
    """Shows the help with every flag."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, OptionsParser)
        print(parser.format_help_all(), end="")
        parser.exit()


class OptionsParser(PlainParser):
    """A parser with one flag for each option of some sections; there are many.

    Its help shows the flags that matter most. The others have a help of their own.
    """

    def __init__(self, sections: tuple[str, ...], **settings: Any) -> None:
        super().__init__(**settings)
        self.add_argument(
            "--config",
            metavar="FILE",
            help="TOML file with any of these options, or laptop, small-gpus or two-gpus",
        )
        self.add_argument(
            "--help-all",
            action=_HelpAll,
            nargs=0,
            help="show all flags, grouped by what they are for",
        )
        self.set_defaults(values={})
        self._further: list[argparse._ArgumentGroup] = []
        rules = [
            (section, key, rule)
            for section in sections
            for key, rule in rules_of(SECTIONS[section]).items()
        ]
        first = self.add_argument_group(_FIRST)
        self._action_groups.insert(0, self._action_groups.pop())
        for section, key, rule in sorted(rules, key=lambda each: each[2].first):
            if rule.first:
                _add_option(first, section, key, rule)
        for topic, title in TOPICS.items():
            of_topic = [each for each in rules if each[2].topic == topic and not each[2].first]
            if of_topic:
                self._further.append(self.add_argument_group(title))
            for section, key, rule in of_topic:
                _add_option(self._further[-1], section, key, rule)

    def format_help(self) -> str:
        """The flags that matter most, and those of the command itself."""
        everything = self._action_groups
        self._action_groups = [each for each in everything if each not in self._further]
        try:
            return super().format_help()
        finally:
            self._action_groups = everything

    def format_help_all(self) -> str:
        """Every flag."""
        return super().format_help()


def _add_option(group: argparse._ArgumentGroup, section: str, key: str, rule: OptionRule) -> None:
    flags = [rule.flag]
    settings: dict[str, Any] = {"metavar": rule.value_in_help}
    if rule.kind in ("bool", "switch"):
        flags.append("--no-" + rule.flag.removeprefix("--"))
        settings = {"nargs": 0} if rule.kind == "bool" else {**settings, "nargs": "?"}
    default = rule.default_in_help(getattr(SECTIONS[section](), key))
    _add_old_flags(group, section, key)
    group.add_argument(
        *flags,
        action=_CheckedValue,
        rule=rule,
        section=section,
        key=key,
        help=(rule.help + default).replace("%", "%%"),
        default=argparse.SUPPRESS,
        **settings,
    )


class _OldFlag(argparse.Action):
    """Reads a flag by the name that it had before, and notes that there is another by now."""

    def __init__(self, *args: Any, before: Renamed, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._before = before

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before, is_on = self._before, not (option_string or "").startswith("--no-")
        namespace.values.setdefault(before.section, {})[before.new] = before.choice(is_on)
        namespace.values.setdefault(_REMARKS, {})[before.old] = before.in_words()


def _add_old_flags(group: argparse._ArgumentGroup, section: str, key: str) -> None:
    for before in RENAMED:
        if (before.section, before.new) == (section, key):
            flags = (before.old_flag, "--no-" + before.old_flag.removeprefix("--"))
            group.add_argument(
                *flags, action=_OldFlag, before=before, nargs=0, help=argparse.SUPPRESS,
                default=argparse.SUPPRESS,
            )  # fmt: skip


def remarks_on(namespace: argparse.Namespace) -> list[str]:
    """What whoever gave these flags should know of them, once they are read."""
    return list(namespace.values.get(_REMARKS, {}).values())


def train_parser(program: str, epilog: str) -> OptionsParser:
    """The parser of the main command."""
    return OptionsParser(
        tuple(SECTIONS),
        prog=program,
        usage=f"{program} --train-data DIR [--data-gpu 0 --model-gpu 1] [flags]\n"
        f"       {program} COMMAND [flags]",
        description="Train a text-to-speech model, or a model of your own. One process prepares the "
        "data and another one trains, each on a GPU of its own, so that neither waits for the other.",
        epilog=epilog,
    )


def resolve_config(namespace: argparse.Namespace) -> Config:
    """Defaults, then the run directory's own file, then --config, then flags.

    Raises:
        ConfigError: names the flag, or the file and key, and what was expected.
    """
    layers: list[Values] = []
    if os.environ.get(FAKE_GPUS_VARIABLE):
        layers.append(_fake_gpus_layer(os.environ[FAKE_GPUS_VARIABLE]))
    run_dir = namespace.values.get("run", {}).get("run_dir")
    if run_dir and (Path(run_dir) / "config.toml").is_file():
        layers.append(read_values(Path(run_dir) / "config.toml"))
    if namespace.config:
        layers.append(read_values(config_file(namespace.config)))
    given = {name: values for name, values in namespace.values.items() if name != _REMARKS}
    if not given.get("run", {}).get("fresh"):
        given = _kept(given, layers)
    layers.append(given)
    return build_config(*layers)


def _kept(given: Values, layers: list[Values]) -> Values:
    """Without a batch size that is to be found out, where the run has found one already."""
    data = given.get("data", {})
    is_known = any(each.get("data", {}).get("batch_size") for each in layers)
    if data.get("batch_size") is not AUTO or not is_known:
        return given
    return {**given, "data": {name: value for name, value in data.items() if name != "batch_size"}}


def with_fake_gpus(config: Config) -> Config:
    """The configuration with the fake GPUs of the environment, where it has none of its own.

    Raises:
        ConfigError: the variable is not a number.
    """
    text = os.environ.get(FAKE_GPUS_VARIABLE)
    if not text or config.run.fake_gpus:
        return config
    count = _fake_gpus_layer(text)["run"]["fake_gpus"]
    return dataclasses.replace(config, run=dataclasses.replace(config.run, fake_gpus=count))


def _fake_gpus_layer(text: str) -> Values:
    rule = rules_of(SECTIONS["run"])["fake_gpus"]
    try:
        return {"run": {"fake_gpus": rule.parse(text)}}
    except ValueError:
        raise ConfigError(
            f"{FAKE_GPUS_VARIABLE}: found {text!r}; expected {rule.expected()}."
        ) from None
