"""The engine knows no task: what its rooms call things, and what they import."""

import ast
import configparser
import io
import re
import tokenize
from pathlib import Path

import pytest

from shared.task import registry

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("shared", "data_worker", "model_worker")
TASKS = {"speech", "vocoder"}  # the rooms that are not the engine's
# The commands that are speech's own, and the pages that check-data writes.
OF_SPEECH = {
    "shared/commands/check_data.py",
    "shared/commands/demo.py",
    "shared/commands/demo_corpus.py",
    "shared/commands/export.py",
    "shared/commands/serve.py",
    "shared/commands/speak.py",
    "shared/console/data_page.py",
    "shared/console/data_text.py",
}
ROOMS = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if not TASKS & set(path.relative_to(ROOT).parts)
    and str(path.relative_to(ROOT)) not in OF_SPEECH
]
WORDS = {
    "mel", "mels", "pitch", "pitches", "prosody", "melody", "phoneme", "phonemes", "grapheme",
    "graphemes", "phone", "phones", "vowel", "voiced", "unvoiced", "voicing", "formant", "harmonic",
    "harmonics", "audio", "acoustic", "speaker", "speakers", "speak", "speaks", "speaking", "speech",
    "spoken", "tts", "utterance", "utterances", "sentence", "sentences", "texts", "transcript",
    "transcripts", "transcription", "lexicon", "pronunciation", "language", "languages", "symbol",
    "symbols", "vocoder", "vocoders", "voice", "voices", "griffin", "hifi", "espeak", "librosa",
    "soundfile", "soxr", "recording", "recordings", "wav", "wave", "waves", "wavs", "waveform",
    "waveforms", "clips", "duration", "durations", "loudness", "energy", "spectrum", "spectra",
    "spectrogram", "spectrograms", "stft", "fft", "hop", "resample", "resampled", "trimmed", "hertz",
    "hz", "decibel", "decibels",
}  # fmt: skip
# In what is said about the code, some of them have other meanings too ("a figure of speech").
WORDS_OF_COMMENTS = {
    "mel", "mels", "pitch", "prosody", "phoneme", "phonemes", "audio", "acoustic", "speaker",
    "speakers", "utterance", "utterances", "vocoder", "vocoders", "spectrogram", "waveform", "hertz",
}  # fmt: skip
# Names that others gave to what is meant in general.
NOT_OURS = {"tf.summary.audio", "event.duration_ps"}


def words_of(name: str) -> set[str]:
    parts = re.split(r"[_.]", name)
    return {w.lower() for part in parts for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", part)}


def identifiers(tree: ast.AST):
    """Line and name of everything that a file calls by a name of its own or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            yield node.lineno, "" if whole in NOT_OURS else node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.value.lineno, node.arg
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node.lineno, getattr(node, "module", "") or ""
            for alias in node.names:
                yield node.lineno, alias.name
                yield node.lineno, alias.asname or ""
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            yield node.lineno, node.name or ""


def comments(source: str):
    """Line and text of every comment and docstring."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            line = getattr(node, "lineno", 1)
            yield from ((line, text) for text in (ast.get_docstring(node) or "").splitlines())


def imports(tree: ast.AST):
    """Every module that a file imports, or could import by what it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_of_a_task(module: str) -> bool:
    package, room, *_ = [*module.split("."), ""]
    return package in PACKAGES and room in TASKS


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_room_of_the_engine_names_speech(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {f"line {line}: {name}" for line, name in identifiers(tree) if words_of(name) & WORDS}
    assert not found
    assert not words_of(str(path.relative_to(ROOT)).replace("/", ".")) & WORDS


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_is_said_about_the_engine_is_about_speech(path):
    if path.name == "registry.py":
        return  # it names the tasks that are built in
    found = {
        f"line {line}: {text.strip()}"
        for line, text in comments(path.read_text(encoding="utf-8"))
        if {word.lower() for word in re.findall(r"[A-Za-z]+", text)} & WORDS_OF_COMMENTS
    }
    assert not found


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_room_of_the_engine_imports_one_of_a_task(path):
    """Also none that is made tomorrow, which the contracts of setup.cfg could not name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert {name for name in imports(tree) if is_of_a_task(name)} == set()


@pytest.mark.parametrize(
    "line",
    [
        "import shared.speech.mel",
        "from data_worker.vocoder import task",
        "from model_worker import speech",
    ],
)
def test_an_import_of_a_task_s_room_is_noticed(line):
    assert any(map(is_of_a_task, imports(ast.parse(line))))


def test_the_rooms_are_looked_at():
    names = {str(path.relative_to(ROOT)) for path in ROOMS}
    assert len(names) > 120
    assert names >= {"shared/plan/plan.py", "data_worker/batches/batch_maker.py"}


@pytest.mark.parametrize(
    "line",
    [
        "mel_basis = 1",
        "class SpeakerTable: pass",
        "def load(num_utterances): pass",
        "plan.AUDIO_RATE",
        "load(sampleRateHz=1)",
        "async def readWavs(): pass",
        "import numpy as voices",
        "from shared.plan import index as symbols",
        "from librosa import filters",
        "try: pass\nexcept ValueError as phoneme: pass",
    ],
)
def test_a_name_of_speech_is_noticed(line):
    assert any(words_of(name) & WORDS for _, name in identifiers(ast.parse(line)))


@pytest.mark.parametrize(
    "source", ["x = 1  # of the mel", '"""One utterance."""', "def f():\n    'Audio.'"]
)
def test_a_comment_about_speech_is_noticed(source):
    words = {w.lower() for _, text in comments(source) for w in re.findall(r"[A-Za-z]+", text)}
    assert words & WORDS_OF_COMMENTS


@pytest.mark.parametrize("path", sorted(OF_SPEECH))
def test_what_is_left_out_of_the_rooms_is_there_and_does_name_speech(path):
    source = (ROOT / path).read_text(encoding="utf-8")
    named = [*identifiers(ast.parse(source)), *comments(source)]
    assert any({*words_of(text), *re.findall(r"[a-z]+", text)} & WORDS for _, text in named)


def test_no_decision_hangs_on_which_task_it_is():
    """Outside of the registry, nobody compares a task's name with a built-in one."""
    pattern = re.compile(r"""(==|!=|in)\s*[("']*(speech|vocoder)["']""")
    for path in ROOMS:
        if path.name != "registry.py":
            assert not pattern.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("name", sorted(registry._BUILT_IN))
def test_a_built_in_task_has_its_rooms_and_the_walls_around_them(name):
    """What a row of the registry names lies in the task's own folders, which no engine room imports."""
    row = registry._BUILT_IN[name]
    rooms = {
        "data": f"data_worker.{name}",
        "model": f"model_worker.{name}",
        "form": f"shared.{name}",
    }
    for part, room in rooms.items():
        assert getattr(row, part).startswith(f"{room}."), (part, room)
        assert (ROOT / room.replace(".", "/")).is_dir()
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    forbidden = contracts["importlinter:contract:tasks"]["forbidden_modules"].split()
    assert set(rooms.values()) <= set(forbidden)
    assert name in TASKS
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in rooms.values():
        assert f"`{room.replace('.', '/')}/`" in table
