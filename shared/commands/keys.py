"""`launcher.py keys`: key files for runs whose two sides are not on one host."""

from __future__ import annotations

from pathlib import Path

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.console.say import say_plainly
from shared.stream.keys import DEFAULT_CLIENT, SERVER_FILE, make_keys


def keys_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} keys",
        usage=f"{PROGRAM} keys [--out DIR] [--name NAME ...]",
        description="Make the keys that a run on several machines needs. Run it again in the same "
        "folder, with another --name, for one more data process.",
    )
    parser.add_argument("--out", default="keys", metavar="DIR", help="folder of the keys [keys]")
    parser.add_argument(
        "--name", action="append", metavar="NAME",
        help=f"data process to make a key for; may be repeated [{DEFAULT_CLIENT}]",
    )  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    """Make the files and say where each belongs."""
    flags = keys_parser().parse_all(arguments)
    folder = Path(flags.out)
    for path in make_keys(folder, flags.name or [DEFAULT_CLIENT]):
        if path.name == SERVER_FILE:
            say_plainly(f"🔑 {path}: for the model process; it stays on its host")
        else:
            say_plainly(f"🔑 {path}: for a data process; copy it to its host, and keep it secret")
    say_plainly(f"   python -m model_worker --run RUN --listen tcp://ADDRESS:PORT --keys {folder}")
    say_plainly("   python -m data_worker --run RUN --connect tcp://ADDRESS:PORT --keys NAME.key")
    return 0
