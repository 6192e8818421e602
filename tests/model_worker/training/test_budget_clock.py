"""The clock of --max-minutes: nobody can set it back, and no time counts twice."""

import dataclasses
import time

import pytest

from model_worker.training import state as training_state
from model_worker.training.state import Position
from shared.clock import machine_s


@pytest.fixture
def clock(monkeypatch):
    """The machine's clock, to be set."""
    now_s = [1000.0]
    monkeypatch.setattr(training_state, "machine_s", lambda: now_s[0])
    return now_s


def go_on(position, begun_s):
    """A process that begins with what a checkpoint has of a position."""
    again = Position(**dataclasses.asdict(position))
    again.go_on_in_command(begun_s)
    return again


def test_what_earlier_commands_used_is_added(clock):
    first = go_on(Position(), begun_s=990.0)
    first.look_at_clock()
    assert first.elapsed_s == 10.0
    clock[0] = 5000.0
    second = go_on(first, begun_s=4950.0)
    second.look_at_clock()
    assert second.elapsed_s == 60.0


def test_a_process_that_is_restarted_by_the_same_command_counts_no_time_twice(clock):
    position = go_on(Position(elapsed_s=100.0), begun_s=990.0)
    for _ in range(3):
        clock[0] += 20.0
        position.look_at_clock()
        position = go_on(position, begun_s=990.0)
    position.look_at_clock()
    assert position.elapsed_s == 100.0 + 10.0 + 60.0


def test_the_clock_on_the_wall_does_not_matter(monkeypatch):
    before_s = machine_s()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0.0 <= machine_s() - before_s < 60.0
