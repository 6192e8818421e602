"""Whatever a task's viewer does, training goes on with its own weights."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from toy_task import FORM, toy, toy_batch

from model_worker.training.step import StepSettings, TrainStep
from model_worker.watching.showing import Showing
from shared.task import Shown, Viewer


class Watcher(Viewer):
    """Keeps the numbers of batches, and shows a weight as it is when it is asked."""

    def __init__(self, step):
        self.step, self.kept = step, []

    def keep(self, batch):
        self.kept.append(batch)

    def make(self, folder):
        return self.step.weights[0].numpy() if self.kept else None

    def write(self, made, folder, step_folder):
        (step_folder / "weight.txt").write_text(f"{made[0, 0]}")
        return [Shown("weight", picture=np.zeros((4, 4, 3), np.uint8))]


@pytest.fixture
def parts(tmp_path):
    side, model = toy()
    step = TrainStep(model, side, FORM.signature(), StepSettings())
    for number in range(3):
        step(toy_batch(number), number, 1e-2)
    shown, said = [], []
    summaries = SimpleNamespace(
        show=lambda number, each: shown.append((number, each.name)), close=lambda patience_s: None
    )

    def showing(viewer):
        return Showing(viewer, step, tmp_path / "samples", summaries, said.append)

    return SimpleNamespace(step=step, showing=showing, shown=shown, said=said)


def test_a_viewer_sees_the_averaged_weights_and_leaves_the_own_ones(parts, tmp_path):
    showing = parts.showing(Watcher(parts.step))
    showing.show(1)  # it has kept nothing yet
    showing.keep(toy_batch(0))
    own = parts.step.weights[0].numpy()
    showing.show(2)
    showing.close()
    np.testing.assert_array_equal(parts.step.weights[0].numpy(), own)
    assert [path.name for path in (tmp_path / "samples").iterdir()] == ["step-000002"]
    written = (tmp_path / "samples" / "step-000002" / "weight.txt").read_text()
    assert float(written) == pytest.approx(float(parts.step.averages[0].numpy()[0, 0]))
    assert float(written) != pytest.approx(float(own[0, 0]))
    assert parts.shown == [(2, "weight")] and parts.said == []


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("keep", "The samples could not be chosen"),
        ("make", "The samples of step 1 could not be made"),
        ("write", "The samples of step 1 could not be written"),
    ],
)
def test_what_goes_wrong_in_a_viewer_is_said_once_and_ends_nothing(parts, method, words):
    def broken(*arguments):
        raise ZeroDivisionError

    viewer = Watcher(parts.step)
    setattr(viewer, method, broken)
    showing, own = parts.showing(viewer), parts.step.weights[0].numpy()
    for number in (1, 2):
        showing.keep(toy_batch(number))
        showing.show(number)
    showing.close()
    np.testing.assert_array_equal(parts.step.weights[0].numpy(), own)
    assert parts.said == [f"⚠️  {words}; the run goes on (see model_worker.log)"]


def test_a_task_may_have_nothing_to_show(parts, tmp_path):
    showing = parts.showing(None)
    showing.keep(toy_batch(0))
    showing.show(1)
    showing.close()
    assert not (tmp_path / "samples").exists()
