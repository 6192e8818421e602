"""How the help looks: never wider than is read with ease, no flag in two pieces."""

from __future__ import annotations

import argparse
import shutil
import textwrap

_COLUMN = 30  # where the help texts begin
_WIDEST = 100


class HelpLines(argparse.HelpFormatter):
    """Lays the help of a parser out; a switch and its opposite are one word of it."""

    def __init__(self, prog: str) -> None:
        columns = min(_WIDEST, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=_COLUMN, width=columns - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # An indented line may be a command, which is copied as a whole.
        return "\n".join(
            line if line.startswith(" ") else textwrap.fill(line, width)
            for line in text.splitlines()
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)  # no flag in two

    def _format_action_invocation(self, action: argparse.Action) -> str:
        flags = action.option_strings
        if len(flags) == 2 and flags[1] == "--no-" + flags[0].removeprefix("--"):
            if action.nargs == "?":  # one that can also be found out
                return f"{flags[0]} {action.metavar}"
            return flags[0].replace("--", "--[no-]", 1)
        return super()._format_action_invocation(action)
