"""`launcher.py completion SHELL`: a script that completes the commands and their flags."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from shared.commands import COMMANDS
from shared.commands.completion.scripts import SHELLS, CommandWords, script_for, words_of
from shared.config.flags import PlainParser, train_parser
from shared.config.installation import PROGRAM

_USAGE = """how to use it, in every new shell:
  bash, in ~/.bashrc                  source <({tandem} completion bash)
  zsh, in ~/.zshrc, after compinit    source <({tandem} completion zsh)
  fish, in ~/.config/fish/config.fish {tandem} completion fish | source
"""


def main(arguments: list[str]) -> int:
    """Print the script."""
    flags = completion_parser().parse_all(arguments)
    print(script_for(flags.shell, all_words()), end="")
    return 0


def completion_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} completion",
        usage=f"{PROGRAM} completion {{{','.join(SHELLS)}}}",
        description="Print a script that lets a shell complete 'tandem' and 'launcher.py'.",
        # A new shell finds it by its path alone.
        epilog=_USAGE.format(tandem=Path(sys.executable).with_name("tandem")),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")
    return parser


def all_words() -> list[CommandWords]:
    """What can be completed, the main command first; made from the parsers themselves."""
    found = [words_of("", "train a voice", train_parser(PROGRAM, ""))]
    for name, (module, maker, about) in COMMANDS.items():
        parser = getattr(importlib.import_module(module), maker)()
        found.append(words_of(name, about, parser))
    return found
