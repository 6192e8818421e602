"""How many batches a second do the real receiver and ledger take from 8 to 1,000 workers?

    python benchmarks/many_workers.py [--seconds 8] [--workers 8 64 256 1000] [--keys]

Real sockets over TCP on loopback; the workers are simulated by one process, which answers each ticket
at once with a small batch that was made before, and says who it is every second, as real ones do.
Shown for each number of them: when the last one had joined, batches a second after that, and by how
much this process's memory grew. `--keys` has every connection encrypted.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import sys
import time
from pathlib import Path

import numpy as np
import zmq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from results import Line, finish, parser_of

from model_worker.stream.admission import Expected
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from shared.devices.cores import resident_mb
from shared.errors import ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.stream import codec, messages
from shared.stream.array_block import ArrayBlock
from shared.stream.key_check import set_client_keys
from shared.stream.keys import load_client_keys, load_server_keys, make_keys
from shared.stream.messages import Envelope
from shared.stream.sockets import ServerSocket

RUN, ROWS = "run", 64
TICKETS_EACH = 2
JOIN_WITHIN_S = 60.0
GOAL_PER_S, GOAL_JOINED_S = 3000.0, 5.0  # with 1,000 of them


def make_plan() -> Plan:
    frames, zeros = np.full(ROWS, 20), np.zeros(ROWS, int)
    return Plan({"num_frames": frames, "num_symbols": frames // 4}, zeros, zeros, FORM,
                batch_size=1, seed=1, max_buckets=1)  # fmt: skip


class SimulatedWorker:
    """One connection that answers at once."""

    def __init__(self, name: str, endpoint: str, plan: Plan, context: zmq.Context, keys: str):
        self._hello = messages.Hello(
            worker=name, pid=os.getpid(), index_fingerprint="index",
            plan_fingerprint=plan.fingerprint(), device_kind="cpu", tensorflow="none", capacity=8,
        )  # fmt: skip
        self._block = ArrayBlock(plan.buckets[0].arrays())
        self._session, self._sequence = "", 0
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if keys:
            set_client_keys(self.socket, load_client_keys(keys))
        self.socket.connect(endpoint)

    def introduce(self) -> None:
        self._send(self._hello)

    def answer(self) -> None:
        while self.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            envelope = codec.decode(self.socket.recv_multipart())
            if isinstance(envelope, ProtocolError):
                raise envelope
            self._session = envelope.session
            if isinstance(envelope.message, messages.MakeBatch):
                batch = envelope.message.batch
                self._send(messages.BatchReady(batch, 0, {}, 0.5, self._block))

    def _send(self, message: messages.Message) -> None:
        self._sequence += 1
        envelope = Envelope(RUN, self._session, self._sequence, message)
        self.socket.send_multipart(codec.encode(envelope))


def simulate(endpoint: str, count: int, core: int, keys: str) -> None:
    os.sched_setaffinity(0, {core})
    plan, context = make_plan(), zmq.Context()
    context.set(zmq.MAX_SOCKETS, 4 * count + 64)
    workers = [SimulatedWorker(f"w-{n}", endpoint, plan, context, keys) for n in range(count)]
    poller, by_socket = zmq.Poller(), {worker.socket: worker for worker in workers}
    for each in by_socket:
        poller.register(each, zmq.POLLIN)
    next_s = 0.0
    while True:
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + 1.0
            for worker in workers:
                worker.introduce()
        for ready, _ in poller.poll(100):
            by_socket[ready].answer()


def measure(
    count: int, seconds: float, keys: Path | None, cores: list[int]
) -> tuple[float, float, float]:
    """When all had joined, batches a second from then on, and megabytes that were taken for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    plan, before_mb = make_plan(), resident_mb()
    expected = Expected(RUN, "index", plan.fingerprint(), "cpu", ROWS, num_workers=count)
    ledger = TicketLedger(TICKETS_EACH * count, 1 << 40, plan.nbytes)
    server = ServerSocket(
        endpoint, RUN, keys=load_server_keys(keys) if keys else None, num_expected=count
    )
    receiver = Receiver(server, plan, ledger, expected, Exclusions(), lambda *failure: None)
    process = multiprocessing.get_context("spawn").Process(
        target=simulate, args=(endpoint, count, cores[0], str(keys or "")), daemon=True
    )
    receiver.start()
    process.start()
    started_s = time.monotonic()
    while ledger.num_workers < 1:  # the other process has started
        time.sleep(0.001)
    first_s = time.monotonic()
    taken, joined_s, until_s = 0, 0.0, started_s + JOIN_WITHIN_S
    while time.monotonic() < until_s:
        receiver.queue.get()
        receiver.taken()
        taken += 1
        if not joined_s and ledger.num_workers >= count:
            joined_s, taken = time.monotonic() - first_s, 0
            measured_s = time.monotonic()
            until_s = measured_s + seconds
    process.kill()
    process.join()
    receiver.stop("finished")
    if not joined_s:
        return float("inf"), 0.0, resident_mb() - before_mb
    return joined_s, taken / seconds, resident_mb() - before_mb


def main() -> None:
    parser = parser_of(__doc__ or "", repeats=1)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64, 256, 1000])
    parser.add_argument("--keys", metavar="DIR", help="encrypt, with keys that are made there")
    flags = parser.parse_args()
    logging.disable(logging.WARNING)
    keys = Path(flags.keys) if flags.keys else None
    if keys is not None and not keys.exists():
        make_keys(keys, ["data_worker"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    lines = []
    for count in flags.workers:
        found = [measure(count, flags.seconds, keys, cores) for _ in range(flags.repeats)]
        joined, rates, grown = (list(values) for values in zip(*found, strict=True))
        goal = count >= 1000
        lines += [
            Line(f"{count} workers: all joined after", joined, "s", most=GOAL_JOINED_S if goal else None),
            Line(f"{count} workers: batches", rates, "/s", least=GOAL_PER_S if goal else None),
            Line(f"{count} workers: memory grew by", grown, "MB"),
        ]  # fmt: skip
    finish(flags, lines)


if __name__ == "__main__":
    main()
