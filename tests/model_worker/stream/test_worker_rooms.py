"""Who has most room for a ticket: the same as if all were looked through each time."""

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from model_worker.stream.worker_rooms import WorkerRooms

WORKERS = [b"a", b"b", b"c", b"d"]
LIMIT = 7


class LookedThrough(RuleBasedStateMachine):
    """Beside the rooms, what they are about, in plain dictionaries."""

    def __init__(self):
        super().__init__()
        self.rooms = WorkerRooms(LIMIT)
        self.capacity, self.held, self.distrusted = {}, dict.fromkeys(WORKERS, 0), set()

    def most_room(self, besides=frozenset()):
        trusted = [worker for worker in self.capacity if worker not in self.distrusted]
        share = max(1, math.ceil(LIMIT / max(1, len(trusted))))
        room = {w: min(self.capacity[w], share) - self.held[w] for w in trusted if w not in besides}
        freest = max(room, key=room.__getitem__, default=None)
        return freest if freest is not None and room[freest] > 0 else None

    @rule(worker=st.sampled_from(WORKERS), capacity=st.integers(1, 5))
    def join(self, worker, capacity):
        self.capacity[worker] = capacity
        self.rooms.join(worker, capacity)

    @rule(worker=st.sampled_from(WORKERS))
    def leave(self, worker):
        self.capacity.pop(worker, None)
        self.distrusted.discard(worker)
        self.rooms.leave(worker)

    @rule(worker=st.sampled_from(WORKERS))
    def hold(self, worker):
        self.held[worker] += 1
        self.rooms.hold(worker)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def release(self, data):
        worker = data.draw(st.sampled_from([w for w, count in self.held.items() if count]))
        self.held[worker] -= 1
        self.rooms.release(worker)

    @precondition(lambda self: self.capacity)
    @rule(data=st.data(), is_trusted=st.booleans())
    def judge(self, data, is_trusted):
        worker = data.draw(st.sampled_from(list(self.capacity)))
        if is_trusted:
            self.distrusted.discard(worker)
            self.rooms.trust(worker)
        else:
            self.distrusted.add(worker)
            self.rooms.distrust(worker)

    @invariant()
    def the_freest_is_the_same(self):
        assert self.rooms.freest() == self.most_room()
        for worker in WORKERS:
            assert self.rooms.freest(besides={worker}) == self.most_room({worker})
        trusted = self.capacity.keys() - self.distrusted
        assert self.rooms.trusted_capacity == sum(self.capacity[worker] for worker in trusted)


TestLookedThrough = LookedThrough.TestCase
TestLookedThrough.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


def test_what_is_out_of_date_does_not_pile_up():
    rooms = WorkerRooms(LIMIT)
    rooms.join(b"a", 5)
    for _ in range(10_000):
        rooms.hold(b"a")
        rooms.release(b"a")
    assert len(rooms._heap) < 100
