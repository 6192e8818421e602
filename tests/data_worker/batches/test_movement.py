"""What the launcher hears of a data process that moves."""

from types import SimpleNamespace

from data_worker.batches import movement as movement_module
from data_worker.batches.movement import Movement


def test_progress_is_told_at_once_and_then_twice_a_second(monkeypatch):
    told, now_s = [], [100.0]
    monkeypatch.setattr(movement_module.time, "monotonic", lambda: now_s[0])
    movement = Movement(SimpleNamespace(progress=told.append))
    movement.tell(idle=False)
    assert told == []  # nothing has moved
    movement.tell(idle=True)
    movement.note()
    movement.tell(idle=False)
    assert told == [0, 1]  # the first movement, however soon
    movement.note()
    movement.tell(idle=False)
    assert told == [0, 1]
    now_s[0] += 0.5
    movement.tell(idle=False)
    assert told == [0, 1, 2]  # what was held back is not lost
