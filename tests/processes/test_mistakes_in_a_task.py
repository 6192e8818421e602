"""A mistake in a task file is told in one or two sentences with the file's own line."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from mistaken_task import MISTAKES, SOUND, write_data

from data_worker.assembly import Assembly
from data_worker.batches.movement import Movement
from data_worker.checks.task_check import look_at_data_half
from data_worker.preparation.prepare import prepare
from model_worker.checks.task_check import look_at_model_half
from model_worker.training.built_model import built_model
from model_worker.training.roll_backs import RollBacks
from model_worker.training.step import StepSettings, TrainStep
from shared.config.settings import Config, DataConfig, RunConfig, TrainingConfig
from shared.errors import TandemError
from shared.plan.exclusions import Exclusions
from shared.plan.index import Index
from shared.task import Facts
from shared.task.registry import Task
from shared.worker.checking import problem_of
from shared.worker.decoding_record import ReadingRecord
from shared.worker.reports import Reporter

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What the preparation finds with the task that is sound: no mistake below changes it."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "cache").mkdir()
    (place / "mine.py").write_text(SOUND)
    config = Config(
        data=DataConfig(train_data=str(write_data(place / "data")), batch_size=4, cache="off"),
        training=TrainingConfig(seed=1, deterministic=True),
        run=RunConfig(task=str(place / "mine.py")),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CACHE", str(place / "cache"))
        return config, prepare(config, place / "index.safetensors")


@pytest.fixture
def of_task(prepared, tmp_path):
    """Configuration and index of a run of a task file with this content."""

    def make(content: str) -> tuple[Config, Index]:
        config, index = prepared
        (tmp_path / "mine.py").write_text(content)
        run = dataclasses.replace(config.run, task=str(tmp_path / "mine.py"))
        return dataclasses.replace(config, run=run), index

    return make


def problem(run: tuple[Config, Index], place: Path) -> str:
    """What `validate` says of a task, by the two halves' own part in it."""
    config, index = run
    try:
        parts = Assembly.of_run(place, config, index, "cpu")
        look_at_data_half(parts, None, place / "batches")
        look_at_model_half(config, index, place / "trial", place / "batches")
    except Exception as error:
        return problem_of(error)
    return ""


def test_nothing_is_said_of_a_sound_task(of_task, tmp_path):
    assert problem(of_task(SOUND), tmp_path) == ""


@pytest.mark.parametrize("name", MISTAKES)
def test_validate_finds_the_mistake_and_names_its_line(of_task, tmp_path, name):
    said = problem(of_task(MISTAKES[name].file), tmp_path)
    assert re.search(MISTAKES[name].told, said), said
    assert "\n" not in said and len(said) < 500


class Batches:
    """What a data process makes of a task, batch by batch, without the process around it."""

    def __init__(self, run: tuple[Config, Index], place: Path):
        config, index = run
        self.said: list[str] = []
        self.found: list = []
        parts = Assembly.of_run(place, config, index, "cpu", self.said.append)
        self._maker = parts.batch_maker(
            self.found.append, Movement(Reporter(None)), ReadingRecord()
        )

    def make(self, wait_until, *numbers):
        for number in numbers:
            self._maker.submit(number, Exclusions())
        return wait_until(lambda: len(self.found) == len(numbers) and self.found, "the batches")


def test_impure_features_are_noticed_while_a_run_goes_on(of_task, tmp_path, wait_until):
    mistake = MISTAKES["impure features"]
    batches = Batches(of_task(mistake.file), tmp_path)
    batches.make(wait_until, 0, 1, 2)
    (said,) = batches.said
    assert re.match(f"⚠️  {mistake.in_run}", said) and "validate --task" in said
    sound = Batches(of_task(SOUND), tmp_path)
    assert sound.make(wait_until, 0, 1)[1].arrays["weight"].sum() > 0 and sound.said == []


def test_reads_that_hang_are_given_up_also_while_nobody_waits_for_them(
    of_task, tmp_path, wait_until
):
    """All readers are stuck with examples of later batches, those of the first one come behind."""
    mistake = MISTAKES["a read that hangs"]
    batches = Batches(of_task(mistake.file), tmp_path)
    for failed in batches.make(wait_until, 0, 1):
        assert re.search(mistake.told, failed.reason), failed


def trained(run: tuple[Config, Index], num_steps: int) -> TrainStep:
    """A model process's steps on a batch; its step."""
    config, index = run
    task = Task.of(config.run.task)
    side = task.model_side()(config)
    model = built_model(side, Facts(index, config))
    step = TrainStep(model, side, task.form().signature(), StepSettings())
    random = np.random.default_rng(1)
    batch = {
        "x": random.normal(size=(4, 6)).astype(np.float32),
        "label": np.array([0, 1, 0, 1], np.int32),
        "weight": np.ones(4, np.float32),
        "rows": np.arange(4, dtype=np.int32),
    }
    for number in range(num_steps):
        step(batch, number, 1e-3)
    return step


def test_a_loss_that_is_never_a_number_ends_a_run_with_its_part_and_place(of_task):
    mistake = MISTAKES["a loss that is NaN"]
    step = trained(of_task(mistake.file), 1)
    roll_backs = RollBacks()
    with pytest.raises(TandemError) as caught:
        for number in (10, 20, 30):
            roll_backs.note(number, 0, step.why_it_broke())
    assert re.match(mistake.in_run, str(caught.value))


def test_a_gradient_that_is_never_a_number_ends_a_run_with_its_place(of_task):
    content = SOUND.replace("each * batch", "tf.sqrt(each * 0 * logits[:, 0]) * batch")
    step = trained(of_task(content), 1)
    assert step.why_it_broke() == (
        "mine.py line 30 (losses): the loss is finite, and its gradient is not"
    )


def test_weights_of_zero_end_a_run_once_ten_batches_had_them(of_task):
    mistake = MISTAKES["weights of zero"]
    step = trained(of_task(mistake.file), 9)
    assert step.read_metrics()["nonfinite_steps"] == 0
    step = trained(of_task(mistake.file), 10)
    with pytest.raises(TandemError, match=mistake.in_run):
        step.read_metrics()


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_the_command_finds_it_too(runs, tmp_path, name):
    (tmp_path / "mine.py").write_text(MISTAKES[name].file)
    flags = ("--task", str(tmp_path / "mine.py"), "--train-data", str(write_data(tmp_path / "d")))
    command = runs.python("launcher.py", "validate", *flags)
    assert command.wait() == 1 and "Traceback" not in command.text
    assert re.search(f"❌ .*\n +{MISTAKES[name].told}", command.text), command.text


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_whole_run_names_the_line(runs, tmp_path, name):
    mistake = MISTAKES[name]
    (tmp_path / "mine.py").write_text(mistake.file)
    runs.corpus = write_data(tmp_path / "data")
    command = runs.launch(
        "run", "--task", str(tmp_path / "mine.py"), "--max-steps", "60", "--checkpoint-every", "60",
        "--validate-every", "0",
    )  # fmt: skip
    assert command.wait() == mistake.status, command.text
    assert re.search(mistake.in_run or mistake.told, command.text), command.text
    assert "Traceback" not in command.text
