"""Completion scripts: complete, and in bash really completing."""

import subprocess
import sys
from pathlib import Path

import pytest

from shared.commands import COMMANDS
from shared.commands.completion.command import all_words, main
from shared.commands.completion.scripts import SHELLS, script_for
from shared.config.option import rules_of
from shared.config.settings import SECTIONS
from shared.errors import ConfigError


def completed(tmp_path, *words):
    """What bash offers after these words, the last of which may be unfinished."""
    program = tmp_path / "try.sh"
    program.write_text(
        script_for("bash", all_words())
        + "compopt() { :; }\n"  # only bash's own line editor has it
        + 'COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _tandem; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", str(program), "tandem", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["be"], ["bench"]),
        (["--cach"], ["--cache", "--cache-megabytes"]),
        (["--cache", ""], ["off", "memory", "disk"]),
        (["--batch-size", "8", "--model-size", "s"], ["small"]),
        (["--batch-size", ""], []),
        (["speak", "--te"], ["--text", "--text-file"]),
        (["speak", "--cach"], []),
        (["completion", "z"], ["zsh"]),
        (["--train-data", "my"], ["my-voice"]),
        (["--train-data", "p"], ["page.html"]),  # a metadata file may be given
        (["check-data", "--html", ""], ["my-voice", "page.html", "try.sh"]),
        (["report", ""], ["my-voice"]),
    ],
)
def test_bash_offers_what_can_follow(tmp_path, words, offered):
    (tmp_path / "my-voice").mkdir()
    (tmp_path / "page.html").touch()
    assert sorted(completed(tmp_path, *words)) == sorted(offered)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_every_option_is_in_every_script(shell, capsys):
    assert main([shell]) == 0
    script = capsys.readouterr().out
    for name in COMMANDS:
        assert name in script
    for kind in SECTIONS.values():
        for rule in rules_of(kind).values():
            assert (f"-l {rule.flag[2:]} " if shell == "fish" else rule.flag) in script
            for choice in rule.choices:
                assert choice in script


def test_the_help_names_a_program_that_a_new_shell_finds(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    program = Path(sys.executable).with_name("tandem")
    assert f"source <({program} completion bash)" in capsys.readouterr().out


def test_an_unknown_shell_is_one_sentence():
    with pytest.raises(ConfigError, match="invalid choice: 'tcsh'"):
        main(["tcsh"])
