"""A task is found by its name or by its file, and what is wrong with a file is one sentence."""

import subprocess
import sys
import textwrap

import pytest

from shared.errors import ConfigError, TaskError
from shared.speech.batch import FORM
from shared.task import DataSide, ModelSide
from shared.task.registry import Task

WHOLE = """
    from shared.task import Array, DataSide, ModelSide

    class Data(DataSide):
        lengths = ("size",)
        arrays = {"x": Array("float32", "size")}

        def examples(self, folder): ...
        def read(self, example): ...
        def row(self, example, features, companion): ...

    class Model(ModelSide):
        def build(self, facts): ...
        def losses(self, model, batch, training, step): ...

    class Other(Model):
        unit = "s"
"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="my_task.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(content), encoding="utf-8")
        return str(path)

    return write


def refused(text, error=ConfigError):
    with pytest.raises(error) as caught:
        Task.of(text)
    return str(caught.value)


def test_speech_is_built_in():
    task = Task.of("speech")
    assert task.is_built_in and task.sha256 == "" and task.form() is FORM
    assert task.data_side().__name__ == "SpeechData"


def test_the_vocoder_is_built_in_and_need_be_named():
    task = Task.of("vocoder")
    assert task.is_built_in and not task.is_default and Task.of("speech").is_default
    assert task.data_identity == ("vocoder", "") and task.form().lengths == ()
    assert task.data_side().__name__ == "VocoderData" and issubclass(task.data_side(), DataSide)
    assert task.next_step("runs/x").startswith("Speak with it:\n   python launcher.py speak")


def test_a_file_brings_both_halves_or_one(write):
    task = Task.of(write(WHOLE))
    assert (task.name, task.is_built_in, task.has_data, task.has_model) == (
        "my_task.py", False, True, True,
    )  # fmt: skip
    assert issubclass(task.data_side(), DataSide) and issubclass(task.model_side(), ModelSide)
    assert task.form() is task.form() and task.form().lengths == ("size",)


def test_the_model_can_be_named(write):
    assert Task.of(write(WHOLE) + ":Other").model_side().unit == "s"
    said = refused(write(WHOLE) + ":Another")
    assert "has no class Another (its classes: Array, Data, DataSide, Model" in said


def test_a_file_with_a_model_alone_trains_on_the_data_of_speech(write):
    model = WHOLE.replace("class Data(DataSide)", "class NotData(DataSide)")
    task = Task.of(write(model))
    assert not task.has_data and task.form() is FORM
    assert task.data_side().__name__ == "SpeechData"


def test_whose_data_it_is_decides_what_batches_may_be_shared(write):
    mine = Task.of(write(WHOLE.replace("class Data(", "class NotData("), "model.py"))
    assert mine.data_identity == Task.of("speech").data_identity == ("speech", "")
    whole = Task.of(write(WHOLE, "whole.py"))
    assert whole.data_identity == ("whole.py", whole.sha256)


def test_a_file_with_data_alone_has_no_model(write):
    task = Task.of(write(WHOLE.replace("class Model(", "class NotModel(").replace("(Model)", "")))
    with pytest.raises(TaskError, match=r"my_task\.py: has a class Data and no class Model\. The"):
        task.model_side()


def test_the_same_content_is_the_same_task_wherever_it_is(write, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    one, other = Task.of(write(WHOLE)), Task.of(write(WHOLE, "elsewhere/my_task.py"))
    assert one.sha256 == other.sha256 != Task.of(write(WHOLE + "\n    # more\n")).sha256


@pytest.mark.parametrize(
    "text", ["speach", "my_task", "my_task.txt", "", "speech:Model", "a.py.bak"]
)
def test_what_is_neither_a_name_nor_a_file_says_what_was_expected(text):
    said = refused(text)
    assert said.startswith(
        f"--task {text}: expected speech, vocoder, or a Python file with a task: FILE.py"
    )


def test_a_file_that_is_not_there_says_so(tmp_path):
    path = tmp_path / "gone.py"
    assert refused(str(path)) == (
        f"--task {path}: {path} can't be read (No such file or directory)."
    )
    (tmp_path / "folder.py").mkdir()
    assert "can't be read (Is a directory)" in refused(str(tmp_path / "folder.py"))


def test_a_syntax_error_is_told_with_its_line_and_nothing_is_run(write):
    said = refused(write("import sys\nsys.exit(9)\n\ndef broken(:\n"))
    assert said.startswith("my_task.py line 4: is not valid Python (") and said.endswith(").")


def test_what_is_no_text_is_told_so(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_bytes(b"a = '\xff\xfe'\n")
    assert refused(str(path)).startswith("my_task.py")
    path.write_bytes(b"class Data:\0 pass\n")
    assert "is not valid Python" in refused(str(path))


def test_a_file_without_a_class_says_which_it_has(write):
    said = refused(write("class Dataset: ...\n"))
    assert said.endswith(
        "has no class Data or class Model (its classes: Dataset). A task is a class Data, based on "
        "shared.task.DataSide, a class Model, based on shared.task.ModelSide, or both."
    )
    assert "(its classes: none)" in refused(write("print(1)\n"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class Data(DataSide)", "class Data", "Data is not based on shared.task.DataSide. Write"),
        ("class Data(DataSide)", "class Data(ModelSide)", "Data is not based on shared.task.DataS"),
        ("def read(self, example): ...", "", r" line 4: class Data has no read\. Every DataSide"),
        ('arrays = {"x": Array("float32", "size")}', "", " line 4: class Data has no arrays"),
        ('("size",)', '("size")', r" line 4 \(class Data\): lengths is 'size'; expected a tuple"),
        ('"float32"', '"float64"', r" line 4 \(class Data\): array 'x' is float64; expected one"),
        ('{"x"', '{"weight"', r"\(class Data\): weight is an array of the engine"),
        ('"size")}', '"width")}', "array 'x' is as long as 'width', which is none of the lengths"),
        ("lengths =", "companion = 'speaker'\n        lengths =", "companion is 'speaker'; expec"),
    ],
)
def test_a_data_half_that_can_not_be_is_refused_with_its_line(write, old, new, said):
    assert old in WHOLE
    task = Task.of(write(WHOLE.replace(old, new)))
    with pytest.raises(TaskError, match=f"^my_task.py.*{said}") as caught:
        task.data_side()
    assert "\n" not in str(caught.value)
    with pytest.raises(TaskError, match=said):
        task.form()


def test_a_model_half_that_can_not_be_is_refused_with_its_line(write):
    task = Task.of(write(WHOLE.replace("def losses(", "def loses(")))
    with pytest.raises(TaskError, match=r"^my_task\.py line 12: class Model has no losses\."):
        task.model_side()
    task = Task.of(write(WHOLE.replace("class Model(ModelSide)", "class Model")))
    with pytest.raises(TaskError, match="Model is not based on shared.task.ModelSide"):
        task.model_side()


def test_a_name_that_is_no_class_is_no_half(write):
    task = Task.of(write("Data = 3\n"))
    with pytest.raises(TaskError, match="Data is not based on shared.task.DataSide"):
        task.data_side()


def test_naming_a_task_imports_none_of_its_halves(write):
    program = (
        "import sys; from shared.task.registry import Task; Task.of(sys.argv[1]); "
        "Task.of('speech').form(); print([n for n in sys.modules if n.startswith(("
        "'tensorflow', 'keras', 'librosa', 'data_worker', 'model_worker', 'tandem_task'))])"
    )
    path = write("raise SystemExit(9)\n" + textwrap.dedent(WHOLE))
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
