"""Hostile messages against the codec, the receiver and the ledger: no crash, no hang, no growth.

    python benchmarks/fuzz.py --messages 1000000 --seed 1 [--hypothesis 20000]
    python benchmarks/fuzz_atheris.py -runs=1000000        # with `pip install atheris`

Each target gets its share of the messages: `codec` decodes frames, `receiver` handles what was
decoded as if it came from peers that are known, unknown or gone, `ledger` takes any event in any
order. Nothing but ProtocolError may leave the codec, nothing at all the other two, and the ledger's
bounds must hold after every event. Shown are messages, how many were taken for good, the slowest
message and how much the process grew after the first tenth.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz_messages import GOOD_MESSAGES, damaged_message

from model_worker.stream import ledger_events as events
from model_worker.stream.admission import Expected
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from shared.errors import ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.stream import codec, messages
from shared.stream.batch_memory import BatchMemory, PeerMemory
from shared.stream.messages import Envelope
from shared.stream.sockets import ServerSocket

HANG_S = 10
MAX_GROWTH_MB = 16.0
NUM_ROWS = 24


def codec_target(rng: random.Random) -> Callable[[], bool]:
    """Frames, and places in real shared memory of which some slots were handed over."""
    memory = BatchMemory(4096, 4)
    taken = [memory.take(4096) for _ in range(2)]
    handed_over = [block for block in taken if block is not None]
    for block in handed_over:
        memory.hand_over(block)
    shared = PeerMemory(os.getpid(), memory.descriptor, memory.slot_bytes, memory.token)

    def step() -> bool:
        for block in handed_over:
            memory.hand_over(block)  # what was read has been given back
        try:
            envelope = codec.decode(damaged_message(rng), shared.block)
        except ProtocolError as error:
            assert len(str(error)) < 1000
            return False
        assert isinstance(envelope, messages.Envelope)
        return True

    return step


class _DeafSocket:
    """Takes what the receiver sends; now and then the peer is gone."""

    session = "session"

    def __init__(self, rng: random.Random):
        self._rng = rng
        self.last_num_bytes = 100
        self.hung_up = False  # on the peer that sent the last message

    def admit_sender(self) -> None:
        pass

    def hang_up_on_sender(self) -> None:
        self.hung_up = True

    def share_memory_with_sender(self, hello: messages.Hello) -> str:
        return self._rng.choice(("", hello.memory))

    def forget(self, peer: bytes) -> None:
        pass

    def send(self, peer: bytes, message: messages.Message) -> bool:
        codec.encode(messages.Envelope("run", self.session, 1, message))
        return self._rng.random() < 0.99


def _make_plan() -> Plan:
    frames, zeros = np.arange(20, 20 + NUM_ROWS), np.zeros(NUM_ROWS, int)
    return Plan(
        {"num_frames": frames, "num_symbols": frames // 4}, zeros, zeros, FORM,
        batch_size=4, seed=1, max_buckets=2, total_train_batches=1_000_000,
    )  # fmt: skip


def receiver_target(rng: random.Random) -> Callable[[], bool]:
    """The receiver without its thread: peers join, leave, lie, and sometimes do their work."""
    plan = _make_plan()
    limit = 6
    ledger = TicketLedger(limit, 1 << 30, plan.nbytes, 0, 1_000_000)
    expected = Expected("run", "index", plan.fingerprint(), "fake", NUM_ROWS)
    socket = _DeafSocket(rng)
    receiver = Receiver(cast(ServerSocket, socket), plan, ledger, expected, Exclusions(),
                        lambda row, from_batch, reason: None)  # fmt: skip
    peers = [bytes([n]) for n in range(6)]

    def anything(peer: bytes) -> messages.Message:
        held = [n for n in ledger.in_flight() if ledger.is_held_by(peer, n)]
        batch = rng.choice([*held, rng.randrange(2**53)])
        kind = rng.randrange(8)
        if kind == 0:
            return messages.Hello(rng.choice(("a", "b", "")), 1, "index", plan.fingerprint(),
                                  "fake", "", rng.choice((0, 1, 8, 2**53)))  # fmt: skip
        if kind == 1 and rng.random() < 0.02 and receiver.exclusions.version < NUM_ROWS // 2:
            return messages.CannotRead(batch, rng.randrange(NUM_ROWS + 2), "gone")
        if kind > 1 and held and rng.random() < 0.7:
            planned = plan.batch(held[0], receiver.exclusions)
            arrays = {name: np.zeros(shape, dtype)
                      for name, (dtype, shape) in planned.shape.arrays().items()}  # fmt: skip
            arrays["rows"][:] = planned.rows
            if rng.random() < 0.1:
                arrays.pop(rng.choice(sorted(arrays)))
            return messages.BatchReady(held[0], receiver.exclusions.version, {}, 0.5, arrays)
        if kind == 5:
            return messages.BatchReady(batch, rng.randrange(3), {}, 0.5,
                                       {"mel": np.zeros((1, 2), np.float32)})  # fmt: skip
        return rng.choice(GOOD_MESSAGES)

    def step() -> bool:
        peer = rng.choice(peers)
        is_known = peer in receiver._members.peers
        if rng.random() < (0.3 if is_known else 0.5):
            received: Envelope | ProtocolError
            try:
                received = codec.decode(damaged_message(rng))
            except ProtocolError as error:
                received = error
        else:
            session = rng.choice((*["session"] * 8, "old", ""))
            message = anything(peer)
            if rng.random() < (0.05 if is_known else 0.7):
                name = f"data_worker-{peers.index(peer)}"
                message = messages.Hello(name, 1, "index", plan.fingerprint(), "fake", "", 8)
            received = messages.Envelope("run", session, 1, message)
        before = ledger.num_received
        receiver._handle(peer, received)
        if socket.hung_up or rng.random() < 0.02:  # it comes again as somebody else
            socket.hung_up = False
            peers[peers.index(peer)] = rng.randbytes(5)
        while ledger.num_received and rng.random() < 0.5:
            try_next = receiver.queue._held.get(ledger.next_batch)
            if try_next is None:
                break
            receiver.queue.get()
            receiver.taken()
            receiver._note_taken()
        _check_bounds(ledger, limit)
        assert len(receiver.queue._held) <= limit
        return ledger.num_received > before

    return step


def ledger_target(rng: random.Random) -> Callable[[], bool]:
    """Any event in any order, with numbers that no honest peer would send."""
    limit, nbytes = 5, 10
    ledger = TicketLedger(limit, 35, lambda batch: nbytes)
    workers = [bytes([n]) for n in range(5)]
    version = 0
    now_s = 0.0

    def step() -> bool:
        nonlocal version, now_s
        worker, kind = rng.choice(workers), rng.randrange(8)
        near = ledger.next_batch + rng.randrange(-2, limit + 2)
        number = rng.choice((near, rng.randrange(2**53)))
        event: events.Event
        if kind == 0:
            event = events.WorkerJoined(worker, rng.choice((-1, 0, 1, 3, 2**53)))
        elif kind == 1:
            event = events.WorkerLeft(worker)
        elif kind == 2:
            now_s += rng.uniform(0, 3)
            event = events.ClockTicked(now_s)
        elif kind == 3 and rng.random() < 0.1:
            version += 1
            known = ledger.in_flight()
            affected = frozenset(rng.sample(known, rng.randrange(len(known) + 1)))
            event = events.ExampleExcluded(version, affected)
        elif kind in (4, 5) and ledger.next_batch in ledger._received:
            event = events.BatchTaken()
        else:
            event = events.BatchArrived(worker, max(0, number), rng.choice((version, 0)))
        taken_before = ledger.next_batch
        actions = ledger.handle(event)
        assert ledger.next_batch - taken_before == isinstance(event, events.BatchTaken)
        _check_bounds(ledger, limit)
        return any(isinstance(action, events.Accept) for action in actions)

    return step


def _check_bounds(ledger: TicketLedger, limit: int) -> None:
    assert ledger.num_in_flight <= limit
    assert len(ledger.in_flight()) <= 2 * limit
    assert len(ledger._required_version) <= 2 * limit


def hypothesis_part(num_examples: int) -> None:
    """Frames by hypothesis, which also looks for the smallest that breaks something."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    @settings(max_examples=num_examples, deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(st.binary(max_size=120), max_size=3), st.integers(0, 2**32), st.booleans())
    def decode_anything(frames, seed, damaged):
        if damaged:
            frames = damaged_message(random.Random(seed)) + frames[:1]
        try:
            codec.decode(frames)
        except ProtocolError:
            pass

    decode_anything()


TARGETS = {"codec": (codec_target, 0.8), "receiver": (receiver_target, 0.1),
           "ledger": (ledger_target, 0.1)}  # fmt: skip


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def _hung(number: int, frame: object) -> None:
    raise TimeoutError(f"one message took more than {HANG_S} s")


def run_target(name: str, num_messages: int, seed: int) -> bool:
    """Run one target and print its line; False when the process has grown."""
    make, _ = TARGETS[name]
    step = make(random.Random(seed))
    num_good, slowest_s, before_mb = 0, 0.0, resident_mb()
    started_s = time.perf_counter()
    for number in range(num_messages):
        if number == num_messages // 10:
            before_mb = resident_mb()
        if number % 1000 == 0:
            signal.alarm(HANG_S)
        begun_s = time.perf_counter()
        num_good += step()
        slowest_s = max(slowest_s, time.perf_counter() - begun_s)
    signal.alarm(0)
    grown_mb = resident_mb() - before_mb
    print(f"{name:9} {num_messages:9,} messages, {num_good:,} taken for good, slowest "
          f"{slowest_s * 1000:.1f} ms, grown by {grown_mb:.1f} MB, "
          f"{time.perf_counter() - started_s:.0f} s")  # fmt: skip
    return grown_mb <= MAX_GROWTH_MB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hypothesis", type=int, default=0, help="examples beside them")
    flags = parser.parse_args()
    signal.signal(signal.SIGALRM, _hung)
    import logging

    logging.disable(logging.CRITICAL)
    flat = [run_target(name, round(flags.messages * share), flags.seed)
            for name, (_, share) in TARGETS.items()]  # fmt: skip
    if flags.hypothesis:
        hypothesis_part(flags.hypothesis)
        print(f"hypothesis {flags.hypothesis:8,} examples")
    print("no crash, no hang" + (", no growth" if all(flat) else ", BUT IT HAS GROWN"))
    return int(not all(flat))


if __name__ == "__main__":
    sys.exit(main())
