"""Completion scripts for bash, zsh and fish, made from the parsers, so that they can't differ."""

from __future__ import annotations

import argparse
import dataclasses
import shlex

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("tandem", "launcher.py")
_FOLDERS = {"DIR", "RUN"}  # how a value is called that is a folder
_FILES = {"FILE", "WAV", "NPY", "DATA"}  # or that may be a file: folders are offered on the way


@dataclasses.dataclass(frozen=True)
class FlagWords:
    """One flag; `values` is what can follow it: words, or "folder", "file", "any", "" (nothing)."""

    flag: str
    about: str
    values: tuple[str, ...] | str


@dataclasses.dataclass(frozen=True)
class CommandWords:
    """One command with its flags; `argument` is what it takes without a flag."""

    name: str  # empty for the main command
    about: str
    flags: tuple[FlagWords, ...]
    argument: tuple[str, ...] | str


def words_of(name: str, about: str, parser: argparse.ArgumentParser) -> CommandWords:
    """What a parser accepts."""
    flags: list[FlagWords] = []
    argument: tuple[str, ...] | str = ""
    for action in parser._actions:  # argparse has no public way to ask
        values = _values_of(action)
        if not action.option_strings:
            argument = values
        for flag in action.option_strings:
            flags.append(FlagWords(flag, (action.help or "").replace("%%", "%"), values))
    return CommandWords(name, about, tuple(flags), argument)


def _values_of(action: argparse.Action) -> tuple[str, ...] | str:
    if action.nargs == 0:
        return ""
    metavar = str(action.metavar or "")
    accepted: tuple[str, ...] = getattr(action, "accepted", ())
    if accepted:
        return accepted
    if metavar.startswith("{"):
        return tuple(metavar.strip("{}").split(","))
    if action.choices and all(isinstance(choice, str) for choice in action.choices):
        return tuple(action.choices)
    if metavar in _FOLDERS:
        return "folder"
    return "file" if metavar in _FILES else "any"


def script_for(shell: str, commands: list[CommandWords]) -> str:
    """The whole script."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _bash(commands: list[CommandWords]) -> str:
    main, others = commands[0], commands[1:]
    names = " ".join(command.name for command in others)
    lines = [
        "# tandem: completion for bash",
        "_tandem() {",
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=""',
        "    [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}",
        '    local words="" values=""',
        "    COMPREPLY=()",
        "    case $command in",
    ]
    for command in [*others, main]:
        lines += [f"    {command.name or '*'})", *_bash_flags(command), "        ;;"]
    lines += [
        "    esac",
        f'    [[ $COMP_CWORD -eq 1 ]] && words+=" {names}"',
        "    case $values in",
        '    folder) mapfile -t COMPREPLY < <(compgen -d -- "$word"); compopt -o filenames ;;',
        '    file) mapfile -t COMPREPLY < <(compgen -f -- "$word"); compopt -o filenames ;;',
        "    any) ;;",
        '    "") mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;',
        '    *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word") ;;',
        "    esac",
        "}",
        f"complete -F _tandem {' '.join(PROGRAMS)}",
    ]
    return "\n".join(lines) + "\n"


def _bash_flags(command: CommandWords) -> list[str]:
    words = [flag.flag for flag in command.flags]
    if isinstance(command.argument, tuple):
        words += command.argument
    by_values: dict[str, list[str]] = {}
    for flag in command.flags:
        if flag.values:
            by_values.setdefault(_spaced(flag.values), []).append(flag.flag)
    lines = [f"        words={shlex.quote(' '.join(words))}", "        case $before in"]
    for values, flags in by_values.items():
        lines.append(f"        {'|'.join(flags)}) values={shlex.quote(values)} ;;")
    if isinstance(command.argument, str) and command.argument:
        lines.append(f"        {command.name}) [[ $word != -* ]] && values={command.argument} ;;")
    return [*lines, "        esac"]


def _spaced(values: tuple[str, ...] | str) -> str:
    return values if isinstance(values, str) else " ".join(values)


def _zsh(commands: list[CommandWords]) -> str:
    main, others = commands[0], commands[1:]
    described = [shlex.quote(f"{command.name}:{command.about}") for command in others]
    lines = [
        "#compdef " + " ".join(PROGRAMS),
        "# tandem: completion for zsh",
        "_tandem() {",
        "    local -a commands",
        "    commands=(",
        *(f"        {words}" for words in described),
        "    )",
        "    local command=",
        "    (( CURRENT > 2 )) && command=$words[2]",
        "    case $command in",
    ]
    for command in others:
        lines += [f"    {command.name})", "        shift words; (( CURRENT-- ))"]
        lines += [*_zsh_arguments(command), "        ;;"]
    lines += [
        "    *)",
        "        (( CURRENT == 2 )) && [[ $words[2] != -* ]] && _describe command commands",
        *_zsh_arguments(main),
        "        ;;",
        "    esac",
        "}",
        f"compdef _tandem {' '.join(PROGRAMS)}",
    ]
    return "\n".join(lines) + "\n"


def _zsh_arguments(command: CommandWords) -> list[str]:
    lines = ["        _arguments \\"]
    for flag in command.flags:
        about = flag.about.replace("[", "(").replace("]", ")").replace(":", "\\:")
        value = f":value:{_zsh_action(flag.values)}" if flag.values else ""
        lines.append(f"            {shlex.quote(f'{flag.flag}[{about}]{value}')} \\")
    if command.argument:
        lines.append(f"            {shlex.quote(f'1:value:{_zsh_action(command.argument)}')} \\")
    lines[-1] = lines[-1].removesuffix(" \\")
    return lines


def _zsh_action(values: tuple[str, ...] | str) -> str:
    if isinstance(values, tuple):
        return f"({' '.join(values)})"
    return {"folder": "_files -/", "file": "_files", "any": " "}[values]


def _fish(commands: list[CommandWords]) -> str:
    names = " ".join(command.name for command in commands[1:])
    lines = ["# tandem: completion for fish"]
    for program in PROGRAMS:
        lines.append(f"complete -c {program} -f")
        for command in commands[1:]:
            lines.append(
                f"complete -c {program} -n __fish_use_subcommand -a {command.name} "
                f"-d {_fish_quoted(command.about)}"
            )
        for command in commands:
            seen = f"__fish_seen_subcommand_from {command.name or names}"
            when = _fish_quoted(seen if command.name else f"not {seen}")
            for flag in command.flags:
                is_long = flag.flag.startswith("--")
                name = f"-l {flag.flag[2:]}" if is_long else f"-s {flag.flag[1:]}"
                lines.append(
                    f"complete -c {program} -n {when} {name}"
                    f"{_fish_values(flag.values)} -d {_fish_quoted(flag.about)}"
                )
            if command.argument:
                lines.append(f"complete -c {program} -n {when}{_fish_values(command.argument, '')}")
    return "\n".join(lines) + "\n"


def _fish_values(values: tuple[str, ...] | str, alone: str = " -x") -> str:
    if isinstance(values, tuple):
        return f"{alone} -a {_fish_quoted(' '.join(values))}"
    return {
        "": "", "any": alone, "file": " -r -F",
        "folder": f"{alone} -a '(__fish_complete_directories)'",
    }[values]  # fmt: skip


def _fish_quoted(words: str) -> str:
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"
