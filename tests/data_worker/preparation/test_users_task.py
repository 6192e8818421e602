"""The preparation of a user's own task, from its file to the index and its refusals."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from data_worker.preparation.examine import DataRefused
from data_worker.preparation.prepare import prepare
from shared.config.settings import Config, DataConfig, RunConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.errors import TaskError
from shared.plan.index import Index
from shared.plan.plan import Plan
from shared.task import Indexed
from shared.task.registry import Task
from shared.worker.preparation_lines import NotPrepared, Prepared, decode

TASK = """
    import threading
    import numpy as np
    from shared.task import Array, DataSide, Example, LeaveOut, LeftOut, Looked, Survey

    class Letters:
        def __init__(self, examples):
            self.of = {example.id: example.path[0] for example in examples}

    class Data(DataSide):
        lengths = ("size",)
        arrays = {"x": Array("float32", "size")}
        companion = "group"
        noun = "notes"

        def __init__(self, config):
            super().__init__(config)
            self.lock = threading.Lock()

        def examples(self, folder):
            for path in sorted(folder.iterdir()):
                yield Example(path.stem, path.name, path.stem[0], {"name": path.stem})

        def survey(self, examples, roots):
            self.letters = Letters(examples)
            return Survey()

        def look(self, example, path):
            content = path.read_bytes()
            # what look does
            return Looked((len(content),), {"bytes": np.frombuffer(content, np.uint8)})

        def read(self, example): ...
        def row(self, example, features, companion): ...
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def place(tmp_path):
    """A folder of eight files of two groups."""
    (tmp_path / "data").mkdir()
    for number in range(8):
        name = f"{'ab'[number % 2]}{number}"
        (tmp_path / "data" / name).write_bytes(bytes(range(1, number + 2)))
    return tmp_path


def config_of(place, content=TASK, **data):
    (place / "notes.py").write_text(textwrap.dedent(content))
    data = {"train_data": str(place / "data"), "max_bad_fraction": 1.0, "val_fraction": 0.2} | data
    return Config(
        data=DataConfig(**data), training=TrainingConfig(seed=7),
        run=RunConfig(task=str(place / "notes.py")),
    )  # fmt: skip


def with_look(words):
    """The task, with these lines in `look`."""
    assert "# what look does" in TASK
    return TASK.replace("# what look does", words)


def test_a_folder_becomes_an_index_of_the_task_s_own(place):
    events = []
    index = prepare(config_of(place), place / "index", lambda *event: events.append(event))
    loaded = Index.load(place / "index")
    assert loaded.fingerprint == index.fingerprint
    assert loaded.ids.to_list() == ["a0", "a2", "a4", "a6", "b1", "b3", "b5", "b7"]
    assert loaded.groups == ["a", "b"] and loaded.group.tolist() == [0] * 4 + [1] * 4
    assert loaded.size.tolist() == [1, 3, 5, 7, 2, 4, 6, 8]
    assert loaded.columns["bytes"][3].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert json.loads(loaded.payload[2]) == {"name": "a4"}
    assert not loaded.left_out and 0 < loaded.split.sum() < 8
    assert (8, 8, "looking at every file once") in events
    example = Indexed(loaded, 1, place / "data" / "a2")
    assert (example.id, example.group, example.payload) == ("a2", "a", {"name": "a2"})
    plan = Plan.from_index(
        loaded, Task.of(str(place / "notes.py")).form(), batch_size=2, seed=1, max_buckets=1
    )
    assert plan.buckets[0]["size"] == 8


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("raise LeaveOut('it is a four')", "it is a four"),
        ("raise OSError(5, 'Input/output error')", "can't be opened (Input/output error)"),
        ("open(str(path) + '.more')", "there is no file a4"),
        (
            "return nothing_of_that_name",
            "notes.py line 30 (in look): NameError: name 'nothing_of_that_name' is not defined at "
            "'if example.id == \\'a4\\': return nothing_of_that_name'. The engine was asking for "
            "what one example is.".replace("\\'", "'"),
        ),
        ("return None", "Data.look returned NoneType; expected shared.task.Looked"),
        ("return 7", "Data.look returned int; expected shared.task.Looked"),
        ("return Looked()", "Data.look found 0 lengths; declared are ('size',)"),
        ("return Looked((1, 2))", "Data.look found 2 lengths; declared are ('size',)"),
        ("return Looked(3)", "Data.look found the lengths 3; expected a tuple, one for each name"),
        ("return Looked((0,))", "Data.look found the lengths (0,); expected whole numbers from 1"),
        ("return Looked((2.5,))", "Data.look found the lengths (2.5,); expected whole numbers"),
        (
            "return Looked((1,), {'bytes': np.zeros((2, 2))})",
            "Data.look found the array bytes of shape (2, 2) and dtype float64; expected numbers",
        ),
        ("return Looked((1,), {'bytes': 'text'})", "Data.look found the array bytes of shape ()"),
        ("import os; os.kill(os.getpid(), 11)", "looking at it crashes the process (SIGSEGV)"),
    ],
)
def test_one_example_that_look_fails_with_is_left_out_with_the_reason(place, words, reason):
    content = with_look(f"if example.id == 'a4': {words}")
    index = prepare(config_of(place, content), place / "index")
    assert len(index) == 7 and "a4" not in index.ids.to_list()
    (entry,) = index.left_out
    assert (entry["id"], entry["kind"]) == ("a4", "bad")
    assert entry["reason"].startswith(reason)


def test_an_example_that_is_not_wanted_counts_as_filtered(place):
    content = with_look("if example.id == 'a4': raise LeaveOut('too odd', 'filtered')")
    index = prepare(config_of(place, content, max_bad_fraction=0.0), place / "index")
    (entry,) = index.left_out
    assert (entry["kind"], entry["reason"]) == ("filtered", "too odd")


def test_a_look_that_never_works_ends_it_with_its_line(place):
    content = with_look("return nothing_of_that_name")
    with pytest.raises(DataRefused) as caught:
        prepare(config_of(place, content), place / "index")
    said = str(caught.value)
    assert "none of its 8 rows can be used (a0: notes.py line 30 (in look): NameError" in said
    assert "quarantine.jsonl in the run directory names every one" in said


def test_what_survey_sets_is_there_for_look(place):
    content = with_look("assert self.letters.of[example.id] == example.path[0] and self.lock")
    assert len(prepare(config_of(place, content), place / "index")) == 8


def test_what_survey_fills_in_place_is_there_for_look(place):
    content = with_look("assert len(self.all) == 8").replace(
        "self.lock = threading.Lock()", "self.lock, self.all = threading.Lock(), []"
    )
    content = content.replace("return Survey()", "self.all.extend(examples); return Survey()")
    assert len(prepare(config_of(place, content), place / "index")) == 8


def test_what_survey_sets_and_can_not_be_sent_is_named(place):
    content = TASK.replace("return Survey()", "self.key = lambda x: x; return Survey()")
    with pytest.raises(TaskError, match=r"notes\.py: survey set self\.key, which can't be sent"):
        prepare(config_of(place, content), place / "index")


def test_examples_that_share_an_id_or_lead_out_of_the_folder_are_left_out(place):
    content = TASK.replace(
        "            for path in sorted(folder",
        "            yield Example('a0', 'a2')\n            yield Example('x', '../notes.py')\n"
        "            yield LeftOut('y', 3, 'y', 'bad', 'it is torn', 'list.txt')\n"
        "            for path in sorted(folder",
    )
    index = prepare(config_of(place, content), place / "index")
    assert sorted((e["id"], e["reason"]) for e in index.left_out) == [
        ("a0", "its id a0 is already that of line 0"),
        ("x", "its file leads out of the data folder"),
        ("y", "it is torn"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("return None", "it returned NoneType"),
        ("return 7", "it returned int"),
        ("return ['a']", "it gave str; expected shared.task.Example or LeftOut"),
        ("return [Example(3, 'a0')]", "the id of example 3 is int; expected text"),
        ("return [Example('a', folder / 'a0')]", "the path of example 'a' is PosixPath; expected"),
        (
            "return [Example('a', '/data/a0')]",
            "the path of example 'a' is '/data/a0'; expected one",
        ),
        ("return [Example('a', 'a0', 7)]", "the group of example 'a' is int; expected text"),
        ("return [Example('a', 'a0', 'g', {1, 2})]", "the payload of example 'a' is not what JSON"),
        ("return [Example('a', 'a0', split=2)]", "the split of example 'a' is 2; expected None, 0"),
    ],
)
def test_what_are_no_examples_is_refused_with_the_line(place, words, said):
    content = TASK.replace("for path in sorted(", f"{words}\n            for path in sorted(")
    content = content.replace("yield Example", "Example")
    with pytest.raises(TaskError) as caught:
        prepare(config_of(place, content), place / "index")
    assert str(caught.value).startswith(f"notes.py line 20 (examples): {said}")


def test_an_empty_folder_is_told_in_the_words_of_a_task(place):
    for path in (place / "data").iterdir():
        path.unlink()
    with pytest.raises(DataRefused, match=r"data: the task's examples\(\) found none there\."):
        prepare(config_of(place), place / "index")


def test_an_edited_task_or_other_content_is_looked_at_again(place):
    def cached(content=TASK):
        return prepare(config_of(place, content), place / "index").preparation["cached"]

    assert not cached() and cached()
    assert not cached(TASK + "\n    # edited\n")
    assert cached()
    (place / "data" / "a4").write_bytes(b"more than it was")
    assert not cached()
    (place / "data" / "c9").write_bytes(b"one more")
    assert not cached() and cached()


def corpus_of(change):
    """The task, its corpus changed."""
    return (
        textwrap.dedent(TASK)
        + f"""
    def corpus(self, examples, looked, is_training, roots, pool):
        corpus = super().corpus(examples, looked, is_training, roots, pool)
        {change}
        return corpus
"""
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("corpus = None", "it returned NoneType; expected shared.task.Corpus"),
        ("corpus.columns['line'] = corpus.columns['size']", "the name line is taken by the engine"),
        ("corpus.facts['fingerprint'] = 3", "the name fingerprint is taken by the engine"),
        ("corpus.facts['left_out'] = 3", "the name left_out is taken by the engine"),
        ("corpus.columns['a.blob'] = 3", "the name a.blob is taken by the engine"),
        (
            "del corpus.columns['size']",
            "it has no column size, which the plan of the batches needs",
        ),
        ("del corpus.columns['group']", "it has no column group, which the plan of"),
        ("corpus.columns['more'] = np.ones(3)", "column more is no array, StringColumn or Ragged"),
        ("corpus.columns['more'] = [1] * 8", "column more is no array, StringColumn or Ragged"),
        ("corpus.columns['more'] = np.ones((8, 2))", "column more is no array, StringColumn or"),
        ("corpus.columns['more'] = np.ones(8, complex)", "column more is complex128, which an"),
        (
            "corpus.columns['more'] = np.array(['x'] * 8)",
            "column more is <U1, which an index can't",
        ),
        ("corpus.tables['more'] = np.ones(8)", "table more is no array of numbers with two dimens"),
        ("corpus.facts['more'] = {1, 2}", "its facts or remarks are not what JSON holds"),
        ("corpus.remarks['more'] = np.ones(2)", "its facts or remarks are not what JSON holds"),
    ],
)
def test_a_corpus_that_no_index_can_hold_is_refused_with_its_line(place, change, said):
    with pytest.raises(TaskError) as caught:
        prepare(config_of(place, corpus_of(change)), place / "index")
    assert str(caught.value).startswith(f"notes.py line 36 (corpus): {said}")
    assert not (place / "index").exists()


def test_facts_are_what_whoever_loads_the_index_finds(place):
    change = "corpus.facts['more'] = {10: (1, 2), 2: 'b'}"
    index = prepare(config_of(place, corpus_of(change)), place / "index")
    assert index.more == Index.load(place / "index").more == {"10": [1, 2], "2": "b"}


def test_every_example_needs_the_same_arrays(place):
    content = with_look("if example.id == 'b3': return Looked((1,), {'other': np.ones(3)})")
    with pytest.raises(TaskError) as caught:
        prepare(config_of(place, content), place / "index")
    assert str(caught.value) == (
        "Data.look found the arrays ['bytes'] in example a0 and ['other'] in b3. Every example "
        "needs the same ones."
    )


def as_a_program(place, config):
    (place / "run").mkdir()
    write_config(config, place / "run" / "config.toml")
    command = [sys.executable, "-m", "data_worker.preparation", "--run", str(place / "run")]
    command += ["--task", config.run.task]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done, list(map(decode, done.stdout.splitlines()))


def test_as_a_program_it_tells_in_the_task_s_words_and_writes_down_which_it_was(place):
    done, events = as_a_program(place, config_of(place))
    assert done.returncode == 0, done.stdout + done.stderr
    last = events[-1]
    assert isinstance(last, Prepared) and (last.noun, last.details) == ("notes", "2 groups")
    assert last.warnings == () and last.usable == 8
    identity = json.loads((place / "run" / "task.json").read_text())
    assert (identity["name"], identity["version"]) == ("notes.py", 1)
    assert identity["recipe"]["task file"] == identity["sha256"] != ""
    assert len(Index.load(place / "run" / "index.safetensors")) == 8


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("for path in sorted(", "for path in sorte(", "notes.py line 21 (in examples): NameError"),
        ("return Survey()", "raise KeyError('x')", "notes.py line 26 (in survey): KeyError: 'x'"),
        ("import threading", "import threadin", "notes.py line 2: ModuleNotFoundError: No module"),
        ('"size")}', '"width")}', "notes.py line 10 (class Data): array 'x' is as long as 'width'"),
    ],
)
def test_as_a_program_a_mistake_in_the_file_is_one_sentence_and_exit_code_2(place, old, new, said):
    assert old in TASK
    done, events = as_a_program(place, config_of(place, TASK.replace(old, new)))
    assert done.returncode == 2 and not done.stderr
    assert isinstance(events[-1], NotPrepared) and events[-1].message.startswith(said)
    assert not (place / "run" / "index.safetensors").exists()


def test_what_the_model_half_lacks_is_told_before_the_data_is_looked_at(place):
    half = "\n\n    from shared.task import ModelSide\n    class Model(ModelSide):\n        unit = 'notes'\n"
    done, events = as_a_program(place, config_of(place, TASK.rstrip() + half))
    assert done.returncode == 2 and not done.stderr
    (told,) = events
    assert isinstance(told, NotPrepared) and told.message == (
        "notes.py line 37: class Model has no build and no losses. Every ModelSide needs build, losses."
    )


def test_the_preparation_of_a_task_loads_no_tensorflow_of_ours(place):
    program = textwrap.dedent("""
        import sys
        from data_worker.preparation.__main__ import main
        if __name__ == "__main__":
            code = main(["--run", sys.argv[1], "--task", sys.argv[2]])
            heavy = ("tensorflow", "librosa", "keras", "soundfile", "shared.speech.utterance")
            sys.exit(code or len([name for name in heavy if name in sys.modules]))
    """)
    config = config_of(place)
    write_config(config, place / "config.toml")
    (place / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, place / "program.py", place, config.run.task],
        env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_validation_data_of_its_own_and_a_split_of_the_task_s_own(place):
    (place / "more").mkdir()
    (place / "more" / "a0").write_bytes(b"xyz")
    index = prepare(config_of(place, val_data=str(place / "more")), place / "index")
    assert index.split.tolist() == index.root.tolist() == [0] * 8 + [1]
    decided = TASK.replace('{"name": path.stem})', "split=int(path.stem in ('a0', 'b5')))")
    assert decided != TASK
    index = prepare(config_of(place, decided), place / "index")
    assert index.split.tolist() == [1, 0, 0, 0, 0, 0, 1, 0]
    assert np.array_equal(index.root, np.zeros(8))
    assert "payload" not in index.columns
    assert dataclasses.asdict(index)["facts"] == {"groups": ["a", "b"]}
