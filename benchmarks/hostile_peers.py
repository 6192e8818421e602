"""What do hostile peers cost? The model side's real receiver, with and without them, in one run.

    python benchmarks/hostile_peers.py [--seconds 1.5] [--pairs 15] [--kinds garbage silent …]

A consumer (20 ms of arithmetic a batch, on one core, in the process that receives) takes batches of
4 MB from one honest producer over TCP on loopback. For each kind of peer, short calm and hostile
windows take turns, and each hostile one is held against the calm ones before and after it: what
else the machine does comes and goes more slowly than that. Printed are the ratio of batches for a
second of processor time (goal: at least 0.95), the interval in which its median lies with 95 %
(bootstrap), the spread of the windows (10 % to 90 %), the same median by the clock, the longest
time without a batch while the peers were there, and what was refused. All other processes share the
other core, the hostile ones at the lowest priority, as if on another host. The hoarder, who has all
that proves it to be of the run, is let to keep the head waiting once (the longest gap) before each
of its windows begins; after that it gets no more tickets.

    garbage    random frames as fast as they go         http     requests to a web server
    flood      batches nobody asked for, 4 MB each      half     handshakes that stop in the middle
    strangers  introductions to another run             slow     a byte of a handshake each second
    silent     handshakes, and then nothing             hoarder  takes tickets and makes nothing
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import logging
import multiprocessing
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # more would only wait for each other on one core

import numpy as np
import zmq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from model_worker.stream.admission import Expected
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from shared.errors import ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.stream import codec, messages
from shared.stream.array_block import ArrayBlock
from shared.stream.sockets import ClientSocket, ServerSocket

ROWS, RUN, STEP_S = 512, "run", 0.02
CONNECTIONS = 50
# Before a window is measured: for the peers to begin, or for what they left to be cleared away.
SETTLES_S, HOARDER_SETTLES_S = 0.4, 8.0


def make_plan() -> Plan:
    frames = np.linspace(300, 700, ROWS).astype(int)
    return Plan(
        {"num_frames": frames, "num_symbols": frames // 8}, np.zeros(ROWS, int),
        np.zeros(ROWS, int), FORM, batch_size=16, seed=1, max_buckets=4,
    )  # fmt: skip


def make_hello(plan: Plan, name: str) -> messages.Hello:
    return messages.Hello(
        worker=name, pid=os.getpid(), index_fingerprint="index",
        plan_fingerprint=plan.fingerprint(), device_kind="cpu", tensorflow="none", capacity=8,
    )  # fmt: skip


def produce(endpoint: str, core: int) -> None:
    """The honest data process: its batches are ready made."""
    os.sched_setaffinity(0, {core})
    plan = make_plan()
    blocks = {shape: ArrayBlock(shape.arrays()) for shape in plan.buckets}
    client, next_hello_s = ClientSocket(endpoint, RUN), 0.0
    while True:
        if time.monotonic() >= next_hello_s:
            client.send(make_hello(plan, "honest"))
            next_hello_s = time.monotonic() + 1
        client.socket.poll(250)
        for received in client.receive_waiting():
            if isinstance(received, ProtocolError):
                raise received
            client.session = received.session
            if isinstance(received.message, messages.MakeBatch):
                batch = received.message.batch
                client.send(messages.BatchReady(batch, 0, {}, 0.5, blocks[plan.shape(batch)]))


def raw(endpoint: str) -> socket.socket:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def send_for_ever(endpoint: str, frames: list) -> None:
    """As fast as the other side takes it; what it says is thrown away."""
    dealer: zmq.Socket = zmq.Context.instance().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 16)
    dealer.connect(endpoint)
    while True:
        dealer.send_multipart(frames)
        while dealer.poll(0):
            dealer.recv_multipart()


def garbage(endpoint: str) -> None:
    send_for_ever(endpoint, [os.urandom(300), os.urandom(3000)])


def flood(endpoint: str) -> None:
    block = ArrayBlock(make_plan().buckets[-1].arrays())
    batch = messages.BatchReady(7, 0, {}, 0.5, block)
    send_for_ever(endpoint, codec.encode(messages.Envelope(RUN, "", 1, batch)))


def strangers(endpoint: str) -> None:
    hello = make_hello(make_plan(), "stranger")
    send_for_ever(endpoint, codec.encode(messages.Envelope("another run", "", 1, hello)))


def silent(endpoint: str) -> None:
    clients = [ClientSocket(endpoint, RUN) for _ in range(CONNECTIONS)]
    while clients:
        time.sleep(1)


def http(endpoint: str) -> None:
    while True:
        with contextlib.suppress(OSError), raw(endpoint) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            connection.recv(100)


def half(endpoint: str) -> None:
    while True:
        connections = [raw(endpoint) for _ in range(CONNECTIONS)]
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3")
        time.sleep(1)
        for connection in connections:
            connection.close()


def slow(endpoint: str) -> None:
    greeting = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + bytes(48)
    while True:
        connections = [raw(endpoint) for _ in range(CONNECTIONS)]
        with contextlib.suppress(OSError):
            for byte in greeting:
                for connection in connections:
                    connection.sendall(bytes([byte]))
                time.sleep(1)


def hoarder(endpoint: str) -> None:
    plan, client = make_plan(), ClientSocket(endpoint, RUN)
    while True:
        client.send(dataclasses.replace(make_hello(plan, "hoarder"), capacity=1024))
        time.sleep(1)


KINDS = (garbage, flood, strangers, silent, http, half, slow, hoarder)


class Trainer:
    """The model side: the real receiver, and a consumer with a fixed amount of arithmetic."""

    def __init__(self, endpoint: str):
        plan = make_plan()
        expected = Expected(RUN, "index", plan.fingerprint(), "cpu", ROWS)
        largest = max(shape.nbytes for shape in plan.buckets) + 4096
        self._receiver = Receiver(
            ServerSocket(endpoint, RUN, max_frame_bytes=largest),
            plan,
            TicketLedger(limit=16, byte_budget=1 << 30, nbytes_of=plan.nbytes),
            expected,
            Exclusions(),
            lambda row, from_batch, reason: None,
        )
        self._receiver.start()
        self._matrix = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
        self._rounds = self._calibrate()
        self.longest_gap_s = 0.0

    def _calibrate(self) -> int:
        rounds = 1
        while True:
            started_s = time.thread_time()
            self._work(rounds)
            if time.thread_time() - started_s > STEP_S:
                return rounds
            rounds += 1

    def _work(self, rounds: int) -> None:
        for _ in range(rounds):
            self._matrix @ self._matrix

    def rate(self, seconds: float) -> tuple[float, float]:
        """Batches a second, and batches for a second of this process's time, over so long."""
        count, started_s, started_cpu_s = 0, time.perf_counter(), time.process_time()
        while (asked_s := time.perf_counter()) - started_s < seconds:
            self._receiver.queue.get()
            self.longest_gap_s = max(self.longest_gap_s, time.perf_counter() - asked_s)
            self._receiver.taken()
            self._work(self._rounds)
            count += 1
        elapsed_s = time.perf_counter() - started_s
        return count / elapsed_s, count / (time.process_time() - started_cpu_s)

    @property
    def refused(self) -> dict[str, int]:
        return dict(self._receiver.refused)


def attack(kind, endpoint: str, core: int) -> None:
    os.nice(19)
    os.sched_setaffinity(0, {core})
    kind(endpoint)


class Costs(NamedTuple):
    """What one kind of peer costs: hostile rate over calm rate, 1 where it costs nothing."""

    by_cpu: np.ndarray  # float64 (pairs,)
    by_clock: np.ndarray  # float64 (pairs,)
    longest_gap_s: float

    def median_interval(self) -> tuple[float, float]:
        """Where the median by processor time lies with 95 %."""
        drawn = np.random.default_rng(0).choice(self.by_cpu, (4000, len(self.by_cpu)))
        low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
        return float(low), float(high)


def measure(
    trainer: Trainer, start_peer: Callable, settles_s: float, num_pairs: int, seconds: float
) -> Costs:
    """Calm and hostile windows in turns, beginning and ending with a calm one."""
    calm, hostile = [trainer.rate(seconds)], []
    longest_gap_s = 0.0
    for _ in range(num_pairs):
        trainer.longest_gap_s = 0.0
        peer = start_peer()
        trainer.rate(settles_s)
        hostile.append(trainer.rate(seconds))
        peer.kill()
        peer.join()
        longest_gap_s = max(longest_gap_s, trainer.longest_gap_s)
        trainer.rate(SETTLES_S)
        calm.append(trainer.rate(seconds))
    rates = np.array(calm)
    by_clock, by_cpu = (np.array(hostile) / ((rates[1:] + rates[:-1]) / 2)).T
    return Costs(by_cpu, by_clock, longest_gap_s)


def main() -> int:
    parser = argparse.ArgumentParser()
    names = [kind.__name__ for kind in KINDS]
    parser.add_argument("--seconds", type=float, default=1.5, help="of each window")
    parser.add_argument("--pairs", type=int, default=15, help="of windows, for each kind")
    parser.add_argument("--kinds", nargs="+", default=names, choices=names)
    parser.add_argument("--least", type=float, default=0.95, help="of the calm rate, else exit 1")
    flags = parser.parse_args()
    logging.disable(logging.WARNING)
    wanted = [kind for kind in KINDS if kind.__name__ in flags.kinds]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    other_core, *_, own_core = sorted(os.sched_getaffinity(0))
    forks = multiprocessing.get_context("forkserver")  # its children start at once

    def start(target, *arguments) -> multiprocessing.process.BaseProcess:
        process = forks.Process(target=target, args=(*arguments, endpoint, other_core), daemon=True)
        process.start()
        return process

    honest = start(produce)
    os.sched_setaffinity(0, {own_core})
    trainer = Trainer(endpoint)
    trainer.rate(2.0)
    print(f"{'peers':>10} {'by CPU':>7} {'95 % interval':>15} {'windows':>15} {'by clock':>9} "
          f"{'gap s':>6}  refused")  # fmt: skip
    worst = 1.0
    for kind in wanted:
        before = trainer.refused
        settles_s = HOARDER_SETTLES_S if kind is hoarder else SETTLES_S
        start_peer = functools.partial(start, attack, kind)
        costs = measure(trainer, start_peer, settles_s, flags.pairs, flags.seconds)
        low, high = costs.median_interval()
        worst = min(worst, float(np.median(costs.by_cpu)))
        least, most = np.percentile(costs.by_cpu, [10, 90])
        new = {k: v - before.get(k, 0) for k, v in trainer.refused.items() if v != before.get(k, 0)}
        print(f"{kind.__name__:>10} {np.median(costs.by_cpu):7.3f} {low:7.3f}–{high:.3f}  "
              f"{least:7.3f}–{most:.3f}  {np.median(costs.by_clock):8.3f} "
              f"{costs.longest_gap_s:6.2f}  {new}", flush=True)  # fmt: skip
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    alive = honest.is_alive()
    honest.kill()
    print(f"peak memory of the model side: {peak_mb:.0f} MB; honest producer alive: {alive}; "
          f"worst {worst:.3f} (goal {flags.least})")  # fmt: skip
    return 0 if alive and worst >= flags.least else 1


if __name__ == "__main__":
    sys.exit(main())
