"""Every command of the README and of docs/ is one that works; every flag and field is there."""

import argparse
import ast
import configparser
import dataclasses
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from shared.commands import COMMANDS
from shared.config.flags import resolve_config, train_parser
from shared.config.variables import FAKE_GPUS_VARIABLE
from shared.speech.batch import FORM
from shared.speech.command_flags import read_speak_flags
from shared.stream import codec, messages
from shared.task import BatchShape
from shared.worker.start import worker_parser

ROOT = Path(__file__).resolve().parent.parent

from documents import FENCE, PAGES, blocks, command_lines, name_of, words_of
from message_templates import is_said, templates_of, templates_of_the_program

COMMANDS_TOLD = [
    pytest.param(line, id=f"{page}: {line[:60]}") for page, line in command_lines()
]  # fmt: skip


def parse_launcher(arguments):
    name = arguments[0] if arguments and arguments[0] in COMMANDS else None
    if name is None:
        parser = train_parser("launcher.py", "")
    else:
        module, maker, _ = COMMANDS[name]
        parser = getattr(importlib.import_module(module), maker)()
        arguments = arguments[1:]
    flags = parser.parse_all(arguments)
    if name is None:
        config = resolve_config(flags)
        goes_on = set(arguments) == {"--run-dir", config.run.run_dir}
        assert goes_on or config.data.train_data, "a run needs data"
    if name == "speak":
        read_speak_flags(arguments)


def check_make(arguments):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [word for word in arguments if not word.startswith("ARGS=")]
    assert named and set(named) <= set(targets)


def check_pip(arguments):
    if arguments[:2] == ["install", "-r"]:
        assert (ROOT / arguments[2]).is_file() and len(arguments) == 3
        return
    if arguments == ["install", "."]:
        return
    extra = re.fullmatch(r"\.\[(\w+)\]", arguments[-1])
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert arguments[:2] == ["install", "--editable"]
    assert extra and extra[1] in setup["options.extras_require"]


class FlagsAreRead(Exception):
    """A script has come to the end of its flags."""


def check_benchmark(script, arguments):
    """Let the script read its flags, and go no further."""
    path = ROOT / script
    if "Flags are libFuzzer's" in path.read_text(encoding="utf-8"):
        assert all(re.fullmatch(r"-(runs|max_len)=\d+", flag) for flag in arguments)
        return
    read = argparse.ArgumentParser.parse_args

    def read_only(parser):
        read(parser)
        written_out = {word for word in arguments if word.startswith("--")}
        assert written_out <= set(parser._option_string_actions)
        raise FlagsAreRead

    with (
        mock.patch.dict(os.environ),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
        mock.patch.object(sys, "argv", [script, *arguments]),
        mock.patch.object(argparse.ArgumentParser, "parse_args", read_only),
        pytest.raises(FlagsAreRead),
    ):
        importlib.import_module(path.stem).main()


def benchmark_flags():
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")]
    sources = (script.read_text(encoding="utf-8") for script in scripts)
    return {flag for source in sources for flag in re.findall(r'"(--[a-z-]+)"', source)}


def check(words):
    """Hand a command to the program that it names. Raises if that would refuse it."""
    program, *rest = words
    if program == "make":
        return check_make(rest)
    if program == "tandem":
        return parse_launcher(rest)
    assert program == "python", f"nothing here knows how to try {program}"
    if rest[0] == "launcher.py":
        return parse_launcher(rest[1:])
    if rest[0].startswith("examples/"):
        if "argparse" not in (ROOT / rest[0]).read_text(encoding="utf-8"):
            return None
    if rest[0].startswith(("benchmarks/", "examples/")):
        return check_benchmark(rest[0], rest[1:])
    assert rest[0] == "-m"
    if rest[1] == "pip":
        return check_pip(rest[2:])
    if rest[1] == "tensorboard.main":
        assert rest[2:] == ["--logdir", "runs"] and importlib.util.find_spec("tensorboard.main")
        return None
    endpoint = {"data_worker": "--connect", "model_worker": "--listen"}[rest[1]]
    return worker_parser(rest[1], endpoint).parse_all(rest[2:])


@pytest.fixture(autouse=True)
def at_the_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv(FAKE_GPUS_VARIABLE, raising=False)


@pytest.mark.parametrize("line", COMMANDS_TOLD)
def test_the_command_is_one_that_its_program_takes(line):
    check(words_of(line))


def test_there_are_commands_to_try():
    assert len(COMMANDS_TOLD) > 50
    in_tables = [page for page, line in command_lines() if line.startswith("python benchmarks/")]
    assert in_tables.count("docs/reliability.md") > 20


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_benchmark_that_is_quoted_goes_untried(page):
    quoted = re.findall(r"`(python benchmarks/[^`…]+)`", page.read_text(encoding="utf-8"))
    assert set(quoted) <= {line for where, line in command_lines() if where == name_of(page)}


@pytest.mark.parametrize(
    "line",
    ["python launcher.py --train-dta x", "python launcher.py speek --run x", "rm -rf /",
     "python launcher.py speak --run x --out y.wav", "make demos", "python -m data_worker --gpu 0",
     "python benchmarks/oscillation.py --repeat 3", "python launcher.py --epochs 3",
     "python benchmarks/faults.py dta --kills 3", "python benchmarks/faults.py --kills 3",
     "python benchmarks/faults.py data --damages 3", "python benchmarks/fuzz.py --messages many",
     "python benchmarks/fuzz_atheris.py --runs 3", "python benchmarks/no_such_script.py"],
)  # fmt: skip
def test_a_wrong_command_would_be_found(line):
    with pytest.raises((Exception, SystemExit)):  # each program has its own
        check(words_of(line))


def known_flags():
    found = {"--listen", "--connect", "--gpu", "--logdir", "--editable", "--help"}
    found |= {
        "--head",
        "--address",
        "--generate",
        "--node-ip-address",
        "--num-cpus",
    }  # of the command `ray`
    found |= {"--no-deps", "--constraint"}  # pip's
    found |= {"--init", "--rm", "--device", "--gpus", "--time"}  # of podman and docker
    parsers = [train_parser("launcher.py", "")]
    parsers += [getattr(importlib.import_module(m), maker)() for m, maker, _ in COMMANDS.values()]
    for parser in parsers:
        for action in parser._actions:
            found.update(action.option_strings)
    return found | benchmark_flags()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_flag_that_is_named_exists(page):
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", page.read_text(encoding="utf-8")))
    assert named - known_flags() == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file(page):
    targets = re.findall(r"\]\(([^)#]+)\)", FENCE.sub("", page.read_text(encoding="utf-8")))
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not missing


def anchors_of(page):
    """How a link names the headings of a page."""
    headings = re.findall(
        r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_into_a_page_leads_to_a_heading(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#]*\.md|)#([^)]+)\)", text):
        assert anchor in anchors_of((page.parent / target) if target else page), (target, anchor)


def test_the_readme_is_one_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 62


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)[)#]", index))
    for wish in ("my voice", "my model", "two GPUs", "a cluster", "why it is slow", "it stopped"):
        assert f"**{wish}**" in index


def test_the_questions_of_the_index_are_answered_where_they_lead():
    """Each in the index itself, with one link to a page or a heading for more."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    questions = re.split(r"\n\n(?=\*\*)", index.split("## Questions people ask")[1].strip())
    assert len(questions) >= 12
    for question in questions:
        assert re.match(r"\*\*[A-Z][^*]+[?.]\*\* ?\n?", question), question
        assert len(re.findall(r"\]\(", question)) == 1, question
    asked = " ".join(questions)
    for words in ("Which GPU trains?", "Can I close the laptop?", "Why is the data GPU idle?"):
        assert words in asked


def test_the_protocol_page_has_every_message_field_array_and_limit():
    page = (ROOT / "docs" / "wire-protocol.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|\s*([^|]*?)\s*\|", page, re.MULTILINE))
    for kind in messages.Message.__args__:
        fields = [field.name for field in dataclasses.fields(kind) if field.name != "arrays"]
        assert re.findall(r"`(\w+)`", rows[kind.__name__]) == fields, kind
    for name, (dtype, _) in BatchShape(2, (5, 3), FORM).arrays().items():
        assert rows[name] == dtype
    assert f"version {messages.PROTOCOL_VERSION}." in page
    assert f"at most {codec.MAX_HEADER_BYTES >> 10} KiB" in page
    assert f"up to {codec.MAX_ARRAYS} arrays of up to {codec.MAX_DIMENSIONS} dimensions" in page
    assert " ".join(codec.DTYPES) in page and f"up to {codec.MAX_BLOCK_BYTES >> 30} GiB" in page


def messages_told():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    table = page.split("## Messages")[1].split("\n## ")[0]
    return re.findall(r"^\| `[❌⚠️ ]*([^`]+)`", table, re.MULTILINE)


@pytest.mark.parametrize("message", messages_told())
def test_a_message_of_the_troubleshooting_table_is_one_that_the_program_says(message):
    assert is_said(message, templates_of_the_program())


def test_there_are_messages_to_look_for():
    assert len(messages_told()) > 15


SOURCE = '''
"""no progress at all"""
def say(folder, free_mb, cause):
    print(f"⚠️  {folder} is nearly full ({free_mb} MB of "
          f"{1e3:.0f}); make room" + f" before {'noon' if free_mb else 'now'}, or stop.")
    print(f"{folder}: {cause}")
    return "disk refused a write"
'''


@pytest.mark.parametrize(
    ("quoted", "said"),
    [
        ("runs/mine is nearly full (12 MB of 1000); make room before noon, or stop.", True),
        ("nearly full (12 MB", True),
        ("is nearly full (…); make room before …, or", True),
        ("data_worker-0: disk refused a write", True),  # one message within another
        ("make room before SIGKILL, or stop", True),
        ("is nearly empty (12 MB of 1000); make room", False),
        ("runs/mine is full", False),
        ("is nearly full, make room", False),
        ("data_worker-0: disk took a write", False),
        ("folder is gone", False),  # the placeholder would be nearly all of it
        ("gone", False),
        ("no progress at all", False),  # a docstring
    ],
)
def test_a_message_is_known_by_its_own_words_and_not_by_its_placeholders(quoted, said):
    assert is_said(quoted, templates_of(SOURCE)) == said


def python_blocks():
    for page in PAGES:
        for number, code in enumerate(blocks(page, "python")):
            yield pytest.param(code, id=f"{page.name}-{number}")


@pytest.mark.parametrize("code", list(python_blocks()))
def test_the_python_can_be_parsed(code):
    ast.parse(code)


def test_the_python_example_runs_as_it_is(tmp_path):
    """All of it but the training: the data is looked at and the run prepared on two fake GPUs.

    processes/test_from_python.py trains.
    """
    (example,) = [
        code for code in blocks(ROOT / "docs" / "python.md", "python") if "launcher.run" in code
    ]
    assert 'RunConfig(run_dir="runs/mine")' in example
    example = example.replace('run_dir="runs/mine"', 'run_dir="runs/mine", prepare_only=True')
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        FAKE_GPUS_VARIABLE: "2",
        "TANDEM_CACHE": str(tmp_path / "cache"),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    make = ["-m", "data_worker.speech.demo.corpus", "--out", "my-voice", "--num", "8"]
    for arguments in (make, ["-c", example]):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "🚀 Intelligent GPU Pipeline: Multi-GPU Mode" in done.stdout
    assert "   - Buffer Size: 75" in done.stdout
    assert done.stdout.endswith("0 prepared runs/mine\n")
    config = (tmp_path / "runs" / "mine" / "config.toml").read_text()
    assert "pipeline_buffer_size = 75" in config and "model_start_delay = 2.5" in config
    assert "max_minutes = 240.0" in config
