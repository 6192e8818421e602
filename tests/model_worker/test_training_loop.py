"""When a run ends by itself: early stopping, and the clock, with what was trained validated."""

from types import SimpleNamespace

import pytest

from model_worker import training_loop, training_state
from model_worker.schedule import Schedule
from model_worker.training_loop import EXIT_FINISHED, TrainingLoop
from model_worker.training_state import Position
from shared.config import Config, TrainingConfig
from shared.stream_layout import StreamLayout

STEP_S, VALIDATION_BATCH_S = 0.5, 0.2


class Story:
    """The parts of a loop, with a clock that moves when they work, and what they did."""

    def __init__(self, training: TrainingConfig, losses=(), total=None, num_validation=2):
        self.now_s, self.did, self.said = 0.0, [], []
        self._losses = iter(losses)
        layout = StreamLayout(training.validate_every, num_validation, total)
        self.receiver = SimpleNamespace(taken=lambda: None)
        self.prefetch = SimpleNamespace(get=lambda wait_s: SimpleNamespace(tensors={}))
        self.validation = SimpleNamespace(
            add=lambda tensors: self.work("held out", VALIDATION_BATCH_S),
            finish=lambda: next(self._losses), abandon=lambda: None, last={},
        )  # fmt: skip
        nothing = lambda *_, **__: None  # noqa: E731
        progress = SimpleNamespace(
            waited=nothing, trained=nothing, step_seconds=lambda: STEP_S, log_step=nothing,
            exclude=nothing, flush=nothing, say_verdict=nothing, sample_busy=nothing,
            log_validation=nothing,
        )  # fmt: skip
        self.parts = SimpleNamespace(
            config=Config(training=training), receiver=self.receiver, prefetch=self.prefetch,
            plan=SimpleNamespace(layout=layout, num_validation_batches=num_validation,
                                 shape=lambda n: (1, 2, 3)),
            train_step=self, validation=self.validation, schedule=Schedule(1e-3, total),
            progress=progress, skipped=SimpleNamespace(contains=lambda n: False),
            reporter=SimpleNamespace(say=self.said.append, phase=nothing, progress=nothing),
            save=lambda position: self.did.append(f"saved {position.step}"),
            on_best=lambda position: self.did.append(f"best {position.step}"),
            samples=SimpleNamespace(speak=nothing), should_stop=lambda: False, started_s=0.0,
        )  # fmt: skip
        self.position = Position()
        self.loop = TrainingLoop(self.parts, self.position)

    nonfinite_in_row = SimpleNamespace(numpy=lambda: 0)

    def __call__(self, *batch_and_rate) -> None:
        self.work("trained", STEP_S)

    def work(self, what: str, seconds: float) -> None:
        self.did.append(what)
        self.now_s += seconds


@pytest.fixture
def story(monkeypatch):
    def make(*arguments, **settings) -> Story:
        story = Story(*arguments, **settings)
        now = lambda: story.now_s  # noqa: E731
        clock = SimpleNamespace(perf_counter=now, monotonic=now)
        monkeypatch.setattr(training_loop, "time", clock)
        monkeypatch.setattr(training_state, "machine_s", now)
        return story

    return make


def test_early_stopping_ends_after_so_many_validations_without_a_better_one(story):
    training = TrainingConfig(early_stopping=2, validate_every=3, checkpoint_every=0)
    told = story(training, losses=[0.9, 0.7, 0.8, 0.6, 0.6, 0.61, 0.5], total=1000)
    assert told.loop.run() == EXIT_FINISHED
    # One worse validation is forgiven by a better one; one that is equal is not better.
    assert told.position.step == 18 and told.position.best_loss == 0.6
    assert told.said == ["🛑 No better validation 2 times in a row"]
    assert [what for what in told.did if what.startswith("best")] == ["best 3", "best 6", "best 12"]
    assert told.did[-1] == "saved 18"
    # Gone on with, it has not become better by itself.
    again = TrainingLoop(told.parts, told.position)
    assert again.run() == EXIT_FINISHED and told.position.step == 18


def test_without_early_stopping_no_validation_ends_a_run(story):
    told = story(TrainingConfig(validate_every=2), losses=[1.0 + n for n in range(10)], total=20)
    assert told.loop.run() == EXIT_FINISHED
    assert told.position.step == 20 and told.said == []


def test_a_run_that_the_clock_ends_keeps_time_to_save_and_validate_what_it_ended_with(story):
    training = TrainingConfig(max_minutes=0.5, validate_every=200)
    told = story(training, losses=[0.4])
    assert told.loop.run() == EXIT_FINISHED
    steps = told.position.step
    assert steps == told.did.count("trained") > 40 and told.did[-1] == f"saved {steps}"
    assert told.loop.needs_validation
    told.loop.validate_at_the_end(told.receiver, told.prefetch)
    assert told.did[-4:] == ["held out", "held out", f"saved {steps}", f"best {steps}"]
    assert not told.loop.needs_validation and told.now_s <= 30.0


@pytest.mark.parametrize(
    ("training", "settings"),
    [
        (TrainingConfig(max_minutes=0.5, validate_every=3, early_stopping=1),
         {"losses": [0.4, 0.5]}),
        (TrainingConfig(max_minutes=0.5), {"num_validation": 0}),
        (TrainingConfig(max_minutes=0.01), {}),
    ],
    ids=["validated already", "nothing held out", "not one step in the time"],
)  # fmt: skip
def test_there_may_be_nothing_to_validate_at_the_end(story, training, settings):
    told = story(training, **settings)
    assert told.loop.run() == EXIT_FINISHED
    assert not told.loop.needs_validation
