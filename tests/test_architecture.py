"""What may import what, what a light command loads, and what no file of ours may ever do."""

import ast
import collections
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("shared", "data_worker", "model_worker")
SOURCES = [ROOT / "launcher.py", *(p for name in PACKAGES for p in (ROOT / name).rglob("*.py"))]
TOOLS = [path for path in (ROOT / "benchmarks").glob("*.py")]
HEAVY = {"tensorflow", "keras", "librosa", "data_worker", "model_worker", "matplotlib", "soundfile"}

LOADED_BY = (
    "import json, runpy, sys\n"
    "sys.argv = ['launcher.py', *sys.argv[1:]]\n"
    "try:\n"
    "    runpy.run_path('launcher.py', run_name='__main__')\n"
    "except SystemExit as end:\n"
    "    code = end.code\n"
    "print('\\n' + json.dumps([code, sorted({name.split('.')[0] for name in sys.modules})]))\n"
)


def modules_loaded_by(*arguments):
    """Exit code and top-level modules of a launcher command, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TANDEM_FAKE_GPUS": ""}
    found = subprocess.run(
        [sys.executable, "-c", LOADED_BY, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    code, modules = ast.literal_eval(found.stdout.splitlines()[-1])
    return code, set(modules)


def test_the_import_contracts_of_setup_cfg_hold():
    found = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()",
         "--config", "setup.cfg", "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 broken" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--no-such-flag"], 2),
        (["--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "99", "--train-data", "x"], 1),
    ],
    ids=["help", "a mistake", "a GPU that is not there"],
)
def test_the_launcher_answers_without_loading_anything_heavy(arguments, code):
    found, modules = modules_loaded_by(*arguments)
    assert found == code
    assert not modules & HEAVY


def test_a_python_without_the_packages_gets_a_sentence_and_not_a_traceback():
    command = [sys.executable, "-S", "launcher.py", "--help"]  # as if .venv were not there
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert "source .venv/bin/activate" in found.stderr


@pytest.mark.parametrize(
    ("role", "absent"), [("data", {"keras", "sklearn"}), ("model", {"sklearn"})]
)
def test_a_worker_s_tensorflow_comes_without_what_it_has_no_use_for(role, absent):
    program = (
        "import sys\n"
        "from shared.config.settings import Config\n"
        "from shared.worker.start import start_tensorflow\n"
        "start_tensorflow(sys.argv[1], 'cpu', Config())\n"
        "before = set(sys.modules)\n"
        "import keras, sklearn  # they can be had all the same\n"
        "print(*before)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, role],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "tensorflow" in found.stdout.split()
    assert not absent & set(found.stdout.split())


def test_the_launcher_imports_only_what_is_shared():
    """It is a module, not a package, so the contracts of setup.cfg can't name it."""
    tree = ast.parse((ROOT / "launcher.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    assert found - set(sys.stdlib_module_names) == {"shared"}


def folders_of_the_table():
    """Those of docs/architecture.md, in its order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("\n## The folders\n")[1]
    return re.findall(r"^\| `([\w/]+)/` \|", table, re.MULTILINE)


def test_the_table_of_the_folders_has_those_that_exist_and_no_others():
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).glob("*/*.py")}
    there = sorted(str(folder.relative_to(ROOT)) for folder in folders)
    assert sorted(folders_of_the_table()) == there


@pytest.mark.parametrize("room", [room for room in folders_of_the_table() if "shared/" in room])
def test_a_room_of_what_is_shared_imports_none_that_stands_above_it_in_the_table(room):
    above = set(itertools.takewhile(lambda each: each != room, folders_of_the_table()))
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (name := node.module or "").startswith("shared.")
        if "/".join(name.split(".")[:2]) in above - {"shared/task"}
    }
    assert found == set()


def test_no_two_classes_have_one_name():
    found = collections.defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_there_are_sources_to_read():
    assert {path.name for path in SOURCES} >= {"launcher.py", "codec.py", "receiver.py", "cache.py"}


FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal",
                     "shelve", "jsonpickle", "msgpack_numpy"}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_NAMES = FORBIDDEN_CALLS - {"compile"}  # not even handed to someone else
FORBIDDEN_METHODS = {"load_model", "loads_pickle", "load_pickle", "enable_unsafe_deserialization",
                     "send_pyobj", "recv_pyobj", "read_pickle", "to_pickle", "model_from_json",
                     "model_from_config", "recv_serialized"}  # fmt: skip
SHELLS = {"system", "popen", "getoutput", "getstatusoutput"}
SAFE_YAML = {"safe_load", "safe_dump"}


def offences(tree):
    """Everything in a syntax tree that could turn data into code."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            names = []
        for name in names:
            if name.split(".")[0] in FORBIDDEN_MODULES:
                yield line, f"imports {name}"
            if name.split(".")[-1] in FORBIDDEN_METHODS and name.split(".")[0] not in PACKAGES:
                yield line, f"imports {name}"
            top, _, rest = name.partition(".")
            if (top == "yaml" and rest and rest not in SAFE_YAML) or (
                top == "builtins" and rest in FORBIDDEN_CALLS
            ):
                yield line, f"imports {name}"
        if isinstance(node, ast.keyword):
            refused = isinstance(node.value, ast.Constant) and node.value.value is False
            if node.arg in ("object_hook", "ext_hook", "safe_mode") or (
                node.arg == "allow_pickle" and not refused
            ):
                yield node.value.lineno, node.arg
            if node.arg == "shell" and not refused:
                yield node.value.lineno, "a shell"
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in FORBIDDEN_CALLS:
            yield line, f"calls {called.id}"
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield line, f"names {node.id}"
        if isinstance(node, ast.Attribute):
            if (
                node.attr in SHELLS
                and isinstance(node.value, ast.Name)
                and (node.value.id in ("os", "subprocess"))
            ):
                yield line, f"uses {node.value.id}.{node.attr}"
            if node.attr in FORBIDDEN_METHODS:
                yield line, f"uses {node.attr}"
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner == "yaml" and node.attr not in SAFE_YAML:
                yield line, f"uses yaml.{node.attr}"
            if owner == "torch" and node.attr == "load":
                yield line, "uses torch.load"
            if owner == "builtins" and node.attr in FORBIDDEN_CALLS:
                yield line, f"uses builtins.{node.attr}"
        if isinstance(node, ast.Constant) and node.value in FORBIDDEN_MODULES:
            yield line, f"names {node.value}"


# A task is code, named on the command line and held against the SHA-256 of the run's beginning.
MAY_RUN_CODE = {"shared/task/users_file.py": ["calls compile", "calls exec", "names exec"]}


@pytest.mark.parametrize("path", [*SOURCES, *TOOLS], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_turns_data_into_code(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = sorted({what for _, what in offences(tree)})
    assert found == MAY_RUN_CODE.get(str(path.relative_to(ROOT)), [])


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "import importlib; importlib.import_module('pickle')",
        "from marshal import loads",
        "eval('1')",
        "exec(text)",
        "__import__('os')",
        "builtins.eval(text)",
        "from builtins import exec",
        "list(map(eval, texts))",
        "run = exec",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "torch.load(path)",
        "from marshal import loads as read",
        "import marshal",
        "from yaml import load",
        "from yaml import Loader, safe_load",
        "tf.keras.models.load_model(path)",
        "keras.models.model_from_json(text)",
        "socket.recv_serialized(read)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "keras.models.load_model(path)",
        "from keras.models import load_model; load_model(path)",
        "keras.saving.load_model(path, safe_mode=False)",
        "socket.recv_pyobj()",
        "msgpack.unpackb(data, object_hook=f)",
        "msgpack.unpackb(data, ext_hook=f)",
    ],
)
def test_the_reading_finds_what_it_is_for(line):
    assert list(offences(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "np.load(path, allow_pickle=False)",
        "yaml.safe_load(text)",
        "from model_worker.speech.speaking.loaded_voice import load_model",
        "from yaml import safe_load",
        "re.compile(pattern)",
        "model.compile(optimizer)",
        "subprocess.run(words, shell=False)",
        "platform.system()",
    ],
)
def test_the_reading_lets_the_safe_ways_pass(line):
    assert not list(offences(ast.parse(line)))
