"""The outer loop: when a run ends by itself, when it goes back, and how long its silence may be."""

import dataclasses
from types import SimpleNamespace

import pytest

from model_worker import training_loop
from model_worker.checkpoints.files import NotFiniteError
from model_worker.replicas.exchange import ReplicaLost
from model_worker.saving import Saving
from model_worker.stream.share import Share
from model_worker.training import state as training_state
from model_worker.training.roll_backs import RollBack
from model_worker.training.schedule import Schedule
from model_worker.training.state import Position
from model_worker.training_loop import TrainingLoop
from model_worker.watching import liveness
from shared.config.settings import Config, DataConfig, TrainingConfig
from shared.plan.stream_layout import StreamLayout
from shared.task import Array, BatchForm, BatchShape
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED, EXIT_TO_BEGIN_AGAIN
from shared.worker.want_of_memory import BatchTooLarge

STEP_S, VALIDATION_BATCH_S = 0.5, 0.2


class SavingStory(Saving):
    """Notes what would be written, and when; the files themselves are other tests' concern."""

    def __init__(self, story, position):
        train_step = SimpleNamespace(num_applied=SimpleNamespace(numpy=lambda: 0))
        progress = SimpleNamespace(flush=lambda durable: None)
        reporter = SimpleNamespace(say=story.said.append)
        super().__init__(None, train_step, position, None, {}, progress, reporter, False)
        self._story = story
        self.takes_s, self.refuses = 0.0, None

    def _write(self, position):
        if self.refuses:
            raise self.refuses
        self._story.work(f"saved {position.step}", self.takes_s)

    def mark_best(self, step, loss):
        self._story.did.append(f"best {step}")


class Story:
    """The parts of a loop, with a clock that moves when they work, and what they did."""

    def __init__(self, training: TrainingConfig, losses=(), total=None, num_validation=2):
        self.now_s, self.did, self.said = 0.0, [], []
        self.step_s = STEP_S
        self.phases, self.reported_s = [], []  # (name, deadline), and when progress was told
        self._losses = iter(losses)
        layout = StreamLayout(training.validate_every, num_validation, total)
        self.receiver = SimpleNamespace(taken=lambda: None)
        self.prefetch = SimpleNamespace(get=lambda wait_s: SimpleNamespace(tensors={}))
        self.validation = SimpleNamespace(
            add=lambda tensors: self.work("held out", VALIDATION_BATCH_S),
            finish=lambda: next(self._losses), abandon=lambda: None, last={},
            judged_by="val_loss",
        )  # fmt: skip
        nothing = lambda *_, **__: None  # noqa: E731
        progress = SimpleNamespace(
            waited=nothing, trained=nothing, step_seconds=lambda: STEP_S, log_step=nothing,
            exclude=nothing, flush=nothing, say_verdict=nothing, sample_busy=nothing,
            log_validation=nothing,
        )  # fmt: skip
        self.position = Position()
        self.saving = SavingStory(self, self.position)
        self.parts = SimpleNamespace(
            config=Config(training=training), receiver=self.receiver, prefetch=self.prefetch,
            plan=SimpleNamespace(layout=layout, num_validation_batches=num_validation,
                                 shape=lambda n: (1, 2, 3)),
            share=Share(layout), team=None, train_step=self, validation=self.validation, schedule=Schedule(1e-3, total),
            progress=progress, skipped=SimpleNamespace(contains=lambda n: False),
            reporter=SimpleNamespace(
                say=self.said.append, phase=lambda *phase: self.phases.append(phase),
                progress=lambda count: self.reported_s.append(self.now_s)),
            saving=self.saving, showing=SimpleNamespace(show=nothing), should_stop=lambda: False, started_s=0.0,
        )  # fmt: skip
        self.loop = TrainingLoop(self.parts, self.position)

    nonfinite_in_row = SimpleNamespace(numpy=lambda: 0)

    def __call__(self, *batch_and_rate) -> None:
        self.work("trained", self.step_s)

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
        monkeypatch.setattr(liveness, "time", clock)
        monkeypatch.setattr(training_state, "machine_s", now)
        return story

    return make


def test_early_stopping_ends_after_so_many_validations_without_a_better_one(story):
    training = TrainingConfig(early_stopping=2, validate_every=3, checkpoint_every=0)
    told = story(training, losses=[0.9, 0.7, 0.8, 0.6, 0.6, 0.61, 0.5], total=1000)
    assert told.loop.run() == EXIT_FINISHED
    # One worse validation is forgiven by a better one; one that is equal is not better.
    assert told.position.step == 18 and told.position.best_loss == 0.6
    assert told.said == [
        "🛑 2 validations in a row brought no improvement; ending, as --early-stopping 2 says"
    ]
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


def test_more_minutes_train_no_longer_than_the_data_is_good_for(story):
    steps = []
    for minutes in (0.5, 1.0, 10.0, 100.0):
        told = story(TrainingConfig(max_minutes=minutes, validate_every=200), losses=[0.4] * 9)
        told.parts.schedule = Schedule(1e-3, None, most_steps=150)
        assert told.loop.run() == EXIT_FINISHED
        steps.append(told.position.step)
    assert steps[0] < steps[1] < 150 == steps[2] == steps[3]
    assert told.said[0].startswith("✅ Ending at step 150 before the time is up")
    assert told.loop.needs_validation and told.did[-1] == "saved 150"
    assert TrainingLoop(told.parts, told.position).run() == EXIT_FINISHED  # and so it stays
    assert told.position.step == 150


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


def test_a_run_whose_minutes_are_used_up_says_so_instead_of_just_ending(story):
    told = story(TrainingConfig(max_minutes=0.5, validate_every=200), losses=[0.4])
    assert told.loop.run() == EXIT_FINISHED and told.said == []
    steps = told.position.step
    again = TrainingLoop(told.parts, told.position)
    assert again.run() == EXIT_FINISHED and told.position.step == steps
    assert told.said == [
        f"✅ Its 0.5 minutes are used up, at step {steps}. A larger --max-minutes goes on from there"
    ]


def test_minutes_that_are_over_before_the_first_step_are_said_to_be_too_few(story):
    told = story(TrainingConfig(max_minutes=0.01))
    assert told.loop.run() == EXIT_FINISHED and told.position.step == 0
    (said,) = told.said
    assert "over before the first step" in said and "--max-minutes" in said


@pytest.mark.parametrize(
    ("step_s", "deadlines_s"),
    [(0.5, [60]), (2.9, [60]), (100, [300, 2000])],
    ids=["fast", "not slow", "minutes a batch"],
)
def test_a_batch_may_take_as_long_as_those_before_it_took_and_more(story, step_s, deadlines_s):
    told = story(TrainingConfig(checkpoint_every=2), total=6, num_validation=0)
    told.step_s = step_s
    assert told.loop.run() == EXIT_FINISHED
    assert told.phases[0] == ("compiling", 1800)
    training = [deadline_s for name, deadline_s in told.phases if name == "training"]
    assert sorted(set(training)) == deadlines_s
    assert training == sorted(training), "a deadline that was declared stays"


def test_a_save_that_takes_long_does_not_make_a_hang_be_found_late(story):
    told = story(TrainingConfig(checkpoint_every=1), total=6, num_validation=0)
    told.saving.takes_s = 500.0
    assert told.loop.run() == EXIT_FINISHED
    assert {deadline_s for name, deadline_s in told.phases if name == "training"} == {60}


class Waiting:
    """No batch comes; the receiving thread stands still after so many seconds."""

    def __init__(self, told, stuck_after_s):
        self._told, self._stuck_after_s = told, stuck_after_s
        told.parts.should_stop = lambda: told.now_s >= 120.0
        told.validation.abandon = lambda: None

    @property
    def num_turns(self):
        return int(min(self._told.now_s, self._stuck_after_s) * 10)

    def get(self, wait_s):
        self._told.now_s += wait_s


@pytest.mark.parametrize("at_the_end", [False, True])
def test_whoever_waits_reports_only_while_the_receiving_thread_works(story, at_the_end):
    told = story(TrainingConfig(max_minutes=60), total=6)
    waiting = Waiting(told, stuck_after_s=20.0)
    told.parts.receiver = told.parts.prefetch = waiting
    if at_the_end:
        told.loop.validate_at_the_end(waiting, waiting)
    else:
        assert told.loop.run() == EXIT_INTERRUPTED
    assert 18 <= len(told.reported_s) <= 21 and told.reported_s[-1] <= 20.5
    name, deadline_s = told.phases[0]
    assert name == "waiting for data" and 10 < deadline_s <= 60


def test_a_state_that_holds_no_numbers_is_gone_back_from_and_not_just_not_saved(story):
    told = story(TrainingConfig(checkpoint_every=2), total=6, num_validation=0)
    told.saving.refuses = NotFiniteError("Step 2 was not saved: ema/x holds NaN or infinity.")
    with pytest.raises(RollBack):
        told.loop.run()
    assert told.position.step == 2
    assert told.said == [
        "⚠️  Going back to the last checkpoint. Step 2 was not saved: ema/x holds NaN or infinity."
    ]


def test_a_batch_without_room_is_named_whether_it_is_trained_or_validated(story):
    form = BatchForm({"x": Array("float32", "frames")}, lengths=("frames",))

    def run_out(*_):
        raise RuntimeError("No algorithm worked!")

    for part in ("train_step", "validation"):
        told = story(TrainingConfig(validate_every=2, checkpoint_every=0), losses=[1.0], total=9)
        told.parts.plan.shape = lambda number: BatchShape(8, (100 + number,), form)
        setattr(told.parts, part, run_out if part == "train_step" else SimpleNamespace(add=run_out))
        with pytest.raises(BatchTooLarge) as caught:
            told.loop.run()
        frames = 100 if part == "train_step" else 102
        assert f"at a batch of 8 rows of {frames} frames. --batch-size 4" in str(caught.value)


class Team:
    """Other replicas, which are there for so many steps."""

    others: list = []  # noqa: RUF012

    def __init__(self, told, num_steps, on_wait_after=()):
        self.told, self.num_steps, self.waits_at = told, num_steps, on_wait_after
        self.places = []

    def train(self, batch, number, step, place, word, is_last, on_wait):
        self.places.append((number, place, is_last))
        if step in self.waits_at:
            on_wait()
        if step >= self.num_steps:
            raise ReplicaLost("replica 1 is gone")
        self.told.work("trained", 0.1)
        return []

    def take_exchange_ms(self):
        return 0.0


def of_a_team(told, num_steps, **settings):
    """The loop of a first replica of two, with four batches in a step."""
    training = dataclasses.replace(told.parts.config.training, grad_accum=4)
    data = DataConfig(data_gpu=0, model_gpu=(1, 2))
    told.parts.config = Config(data=data, training=training)
    told.parts.share = Share(told.parts.plan.layout, 0, 2)
    told.parts.team = Team(told, num_steps, **settings)
    told.parts.train_step.drop_group = lambda: told.did.append("dropped")
    told.parts.progress.note_exchange = lambda *_: None
    return TrainingLoop(told.parts, told.position)


def test_a_replica_that_is_lost_costs_no_more_than_the_step_under_way(story):
    told = story(TrainingConfig(validate_every=0, checkpoint_every=0), total=40)
    loop = of_a_team(told, 3)
    assert loop.run() == EXIT_TO_BEGIN_AGAIN
    assert told.position.step == 3 and told.position.next_batch == 12
    assert told.did[-2:] == ["dropped", "saved 3"]
    assert told.parts.team.places[:4] == [(0, 0, False), (2, 2, True), (4, 0, False), (6, 2, True)]
    assert "replica 1 is gone: all replicas begin again from step 3" in told.said[-1]


def test_a_stop_while_the_others_are_waited_for_drops_the_step(story):
    told = story(TrainingConfig(validate_every=0, checkpoint_every=0), total=40)
    loop = of_a_team(told, 9, on_wait_after=(2,))
    told.parts.should_stop = lambda: told.position.step == 2 and len(told.parts.team.places) > 4
    assert loop.run() == EXIT_INTERRUPTED
    assert told.position.step == 2 and told.did[-2:] == ["dropped", "saved 2"]
