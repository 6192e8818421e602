"""The waiting before the first step: it ends when there is nothing to wait for, and is never silent."""

import itertools
from types import SimpleNamespace

import pytest

from model_worker import start_delay
from model_worker.start_delay import WAITING_DEADLINE_S, wait_for_start
from shared.config.settings import Config, DataConfig

TWO_GPUS = Config(DataConfig(data_gpu=0, model_gpu=1, model_start_delay=2.0))


class Waiting:
    """A model process that waits; the story says what happens at each look at the clock."""

    def __init__(self, monkeypatch, *story):
        self.receiver = SimpleNamespace(
            first_worker_s=None, queue_depth=0, has_ended=False, num_turns=0
        )
        self.receiver_turns = True
        self.told = []
        self.stopped = False
        self._story = dict(story)
        self._now_s = 100.0
        monkeypatch.setattr(start_delay.time, "monotonic", lambda: self._now_s)

    def run(self, config=TWO_GPUS):
        reporter = SimpleNamespace(
            phase=lambda name, deadline_s: self.told.append((name, deadline_s)),
            progress=lambda count: self.told.append(self._now_s),
            say=self.told.append,
        )
        wait_for_start(self.receiver, config, False, reporter, lambda: self.stopped, self.wait)
        return self._now_s - 100.0

    def wait(self, seconds):
        before_s, self._now_s = self._now_s, self._now_s + seconds
        self.receiver.num_turns += self.receiver_turns
        for at_s, happens in self._story.items():
            if before_s - 100.0 < at_s <= self._now_s - 100.0:
                happens(self)

    def let_worker_in(self):
        self.receiver.first_worker_s = self._now_s

    def receive(self):
        self.receiver.queue_depth = 1

    def fail(self):
        self.receiver.has_ended = True

    def stop(self):
        self.stopped = True


def test_the_delay_is_counted_from_the_first_worker_and_a_batch_must_be_there(monkeypatch):
    waiting = Waiting(monkeypatch, (1.0, Waiting.let_worker_in), (1.5, Waiting.receive))
    assert waiting.run() == pytest.approx(3.0, abs=0.11)
    assert waiting.told[-1] == "✅ Model training starting now"
    waiting = Waiting(monkeypatch, (1.0, Waiting.let_worker_in), (5.0, Waiting.receive))
    assert waiting.run() == pytest.approx(5.0, abs=0.11)


@pytest.mark.parametrize("fails_s", [0.5, 2.0, 4.5])
@pytest.mark.parametrize("how", [Waiting.fail, Waiting.stop])
def test_a_receiver_that_fails_or_a_stop_ends_the_waiting_wherever_it_is(monkeypatch, fails_s, how):
    waiting = Waiting(monkeypatch, (1.0, Waiting.let_worker_in), (fails_s, how))
    assert waiting.run() == pytest.approx(fails_s, abs=0.11)
    assert "✅ Model training starting now" not in waiting.told


def test_it_says_every_second_that_it_lives_and_silence_would_be_noticed(monkeypatch):
    waiting = Waiting(monkeypatch, (20.0, Waiting.let_worker_in), (40.0, Waiting.receive))
    waiting.run()
    assert waiting.told[0] == ("waiting for data", WAITING_DEADLINE_S)
    told_s = [moment for moment in waiting.told if isinstance(moment, float)]
    assert 38 <= len(told_s) <= 42
    assert max(b - a for a, b in itertools.pairwise(told_s)) < 1.2
    assert 0 < WAITING_DEADLINE_S <= 10.0


def test_a_receiver_that_stands_still_is_not_covered_up(monkeypatch):
    waiting = Waiting(monkeypatch, (20.0, Waiting.let_worker_in), (21.0, Waiting.receive))
    waiting.receiver_turns = False
    waiting.run()
    told_s = [moment - 100.0 for moment in waiting.told if isinstance(moment, float)]
    assert [moment for moment in told_s if 0 < moment < 20] == []
