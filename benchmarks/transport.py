"""How fast batches move between two processes, by Tandem and by its peers, in one run.

    python benchmarks/transport.py [--sizes 1 8 32] [--windows 5] [--repeats 3] [--only tandem plain]

Each transport has a producer pinned to one core and a receiver pinned to another. The producer has
its batches ready and sends without end; the receiver counts what arrives after a warm-up, and its
own CPU time, in windows of half a second. Of these the one counts in which other programs took
least of the two cores (also shown): on an idle machine any, on a busy one the fairest. The
transports take turns within each repeat, and ratios are taken within a repeat. Shown are the median
and, in brackets, lowest–highest.

tandem   all that a batch passes through between a data process's features and the training loop:
         sockets, codec, tickets, the check against the plan, the ordered queue; ten arrays in a
         block, 8 tickets; each batch is written anew into memory that both processes share, as
         between two processes of one host
socket   the same with the block sent through the socket, as between two hosts
plain    ZeroMQ DEALER → ROUTER over ipc, the batch as one frame, sent without a copy, 8 credits
queue    multiprocessing.Queue(8) of the same ten arrays
shared   multiprocessing.shared_memory as a ring of 8 slots, copied in and out
service  tf.data service, dispatcher and worker in the producer's process, no compression
torch    torch DataLoader, one worker process, tensors through shared memory
ray      Ray's object store, an actor putting, 8 gets in flight
memcpy   copying the batch within the receiver's core: what no transport can reach
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import results as figures
import transport_peers
from results import Line, ratios

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shared.errors import ProtocolError
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.stream.array_block import ArrayBlock

KINDS = ("memcpy", "plain", "tandem", "socket", "queue", "shared", "service", "torch", "ray")
MODULES = {"service": "tensorflow", "torch": "torch", "ray": "ray"}  # that a peer needs
CREDITS = 8
FRAMES = 576  # of a row; with 32 rows a batch is 8.1 MB
ROWS_PER_MEGABYTE = 4
BATCHES_PER_EPOCH = 400  # about those of LJSpeech at a batch size of 32
RING = 4  # different batches, so that the cores' caches do not do the work
WARM_UP = 12
WINDOW_S = 0.5
START_DEADLINE_S = 120.0
# Tandem's rate against a peer's, at least; and the receiver's CPU time, at most.
RATIO_GOALS = {"plain": 0.9, "service": 4.0, "torch": 4.0}
CPU_S_PER_GB_GOAL = 0.2


def make_plan(megabytes: int) -> Plan:
    """A plan whose batches all have the same shape and about this size."""
    rows = megabytes * ROWS_PER_MEGABYTE
    frames = np.full(rows * BATCHES_PER_EPOCH, FRAMES)
    zeros = np.zeros(len(frames), int)
    return Plan(
        {"num_frames": frames, "num_symbols": frames // 6}, zeros, zeros, FORM,
        batch_size=rows, seed=1,
    )  # fmt: skip


def make_batches(megabytes: int) -> list[ArrayBlock]:
    """A few batches of the arrays that a data process sends."""
    generator = np.random.default_rng(0)
    shape = make_plan(megabytes).batch(0).shape
    batches = [ArrayBlock(shape.arrays()) for _ in range(RING)]
    for batch in batches:
        for array in batch.values():
            array[...] = generator.integers(0, 100, array.shape)
    return batches


def nbytes_of(batch: dict[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in batch.values())


class Meter:
    """Counts what arrives after the warm-up, in windows, and who else used the two cores."""

    def __init__(self, num_windows: int, producer_pid: int | None):
        self._num_windows = num_windows
        self._producer_pid = producer_pid
        self._num_batches = self._num_bytes = 0
        self._begun: tuple[float, float, float] | None = None
        self._windows: list[dict] = []

    def count(self, num_bytes: int) -> dict | None:
        """Count one batch; the result when there are enough windows."""
        self._num_batches += 1
        if self._begun is None:
            if self._num_batches >= WARM_UP:
                self._begun = self._clocks()
            return None
        self._num_bytes += num_bytes
        if time.perf_counter() - self._begun[0] < WINDOW_S:
            return None
        now = self._clocks()
        wall_s, cpu_s, others_s = (b - a for a, b in zip(self._begun, now, strict=True))
        self._windows.append(
            {
                "gb_per_s": self._num_bytes / 1e9 / wall_s,
                "cpu_s_per_gb": cpu_s / (self._num_bytes / 1e9),
                "others": max(0.0, others_s / wall_s / 2),
            }
        )
        self._begun, self._num_bytes = now, 0
        if len(self._windows) < self._num_windows:
            return None
        return min(self._windows, key=lambda window: window["others"])

    def _clocks(self) -> tuple[float, float, float]:
        """Wall time, this process's CPU time, and that of others on the two cores, in seconds."""
        own_s = time.process_time()
        children = multiprocessing.active_children()
        pids = [child.pid for child in children if child.pid is not None]
        pids += [self._producer_pid] if self._producer_pid else []
        busy_s = sum(busy_seconds(core) for core in {core_of("produce"), core_of("receive")})
        others_s = busy_s - own_s - sum(map(process_seconds, pids))
        return time.perf_counter(), own_s, others_s


def busy_seconds(core: int) -> float:
    """CPU time that anyone has used on a core since the machine started."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _, _, irq, softirq = map(int, ticks[:7])
            return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    raise RuntimeError(f"no core {core} in /proc/stat")


def process_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def core_of(role: str) -> int:
    return int(os.environ["PRODUCER_CORE" if role == "produce" else "RECEIVER_CORE"])


# --- memcpy


def receive_memcpy(place: Path, megabytes: int) -> Iterator[int]:
    source = [np.zeros(megabytes << 20, np.uint8) + n for n in range(RING)]
    target = [np.empty_like(array) for array in source]
    while True:
        for one, other in zip(source, target, strict=True):
            np.copyto(other, one)
            yield one.nbytes


# --- plain ZeroMQ


def produce_plain(place: Path, megabytes: int) -> None:
    import zmq

    batches = make_batches(megabytes)
    dealer: zmq.Socket = zmq.Context.instance().socket(zmq.DEALER)
    dealer.set_hwm(0)
    dealer.connect(f"ipc://{place}/stream")
    dealer.send(b"hello")
    for batch in itertools.cycle(batches):
        dealer.recv()
        dealer.send(batch.block.data, copy=False)


def receive_plain(place: Path, megabytes: int) -> Iterator[int]:
    import zmq

    router: zmq.Socket = zmq.Context.instance().socket(zmq.ROUTER)
    router.set_hwm(0)
    router.bind(f"ipc://{place}/stream")
    peer, _ = router.recv_multipart()
    for _ in range(CREDITS):
        router.send_multipart([peer, b""])
    while True:
        _, frame = router.recv_multipart(copy=False)
        array = np.frombuffer(frame.buffer, np.uint8)
        router.send_multipart([peer, b""])
        yield array.nbytes


# --- Tandem


def produce_tandem(place: Path, megabytes: int) -> None:
    from shared.stream.batch_memory import BatchMemory

    block_bytes = len(make_batches(megabytes)[0].block)
    produce_with(place, megabytes, lambda: BatchMemory(block_bytes, CREDITS + 2))


def produce_socket(place: Path, megabytes: int) -> None:
    produce_with(place, megabytes, None)


def produce_with(place: Path, megabytes: int, make_memory) -> None:
    import zmq

    from shared.stream import messages
    from shared.stream.sockets import ClientSocket

    batches, plan = make_batches(megabytes), make_plan(megabytes)
    layout = plan.batch(0).shape.arrays()
    socket = ClientSocket(f"ipc://{place}/stream", "run", make_memory=make_memory)
    hello = messages.Hello(
        "data_worker-0", os.getpid(), "index", plan.fingerprint(), "cpu", "", CREDITS
    )
    timings_ms = {"decode": 1.0, "decode_wait": 1.0, "features": 1.0, "readers": 2.0}
    next_hello_s = 0.0
    while True:
        if time.monotonic() >= next_hello_s:
            socket.send(hello)
            next_hello_s = time.monotonic() + 1.0
        socket.socket.poll(250, zmq.POLLIN)
        for envelope in socket.receive_waiting():
            if isinstance(envelope, ProtocolError):
                raise envelope
            socket.session = envelope.session
            message = envelope.message
            if isinstance(message, messages.MakeBatch):
                arrays = batches[message.batch % RING]
                if make_memory is not None:
                    made, arrays = arrays, ArrayBlock(layout, socket.take_memory)
                    np.copyto(arrays.block, made.block)
                socket.send(messages.BatchReady(message.batch, 0, timings_ms, 0.5, arrays))


def receive_socket(place: Path, megabytes: int) -> Iterator[int]:
    return receive_tandem(place, megabytes)


def receive_tandem(place: Path, megabytes: int) -> Iterator[int]:
    from model_worker.stream.receiver import Expected, Receiver
    from model_worker.stream.ticket_ledger import TicketLedger
    from shared.plan.exclusions import Exclusions
    from shared.stream.sockets import ServerSocket
    from shared.worker.process_guard import keep_freed_memory

    keep_freed_memory()
    plan = make_plan(megabytes)
    ledger = TicketLedger(CREDITS, 1 << 40, plan.nbytes)
    expected = Expected("run", "index", plan.fingerprint(), "cpu", 0)
    socket = ServerSocket(f"ipc://{place}/stream", "run")
    receiver = Receiver(socket, plan, ledger, expected, Exclusions(), lambda *failure: None)
    receiver.start()
    while True:
        batch = receiver.queue.get()
        receiver.taken()
        yield nbytes_of(batch.arrays)


# --- multiprocessing.Queue


def put_for_ever(queue, core: int, megabytes: int) -> None:
    os.sched_setaffinity(0, {core})
    for batch in itertools.cycle([dict(batch) for batch in make_batches(megabytes)]):
        queue.put(batch)


def receive_queue(place: Path, megabytes: int) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(CREDITS)
    arguments = (queue, core_of("produce"), megabytes)
    context.Process(target=put_for_ever, args=arguments, daemon=True).start()
    while True:
        yield nbytes_of(queue.get())


# --- tf.data service


def produce_service(place: Path, megabytes: int) -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    _, address = dispatcher.target.split("://")
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    (place / "address.new").write_text(dispatcher.target)
    (place / "address.new").rename(place / "address")
    worker.join()


def receive_service(place: Path, megabytes: int) -> Iterator[int]:
    import tensorflow as tf

    until_s = time.monotonic() + START_DEADLINE_S
    while not (place / "address").exists():
        if time.monotonic() > until_s:
            raise RuntimeError(f"no tf.data service after {START_DEADLINE_S:g} s")
        time.sleep(0.1)
    batches = make_batches(megabytes)
    # Whole batches as constants in the graph: the service has nothing to do but to send them.
    dataset = tf.data.Dataset.from_tensors(dict(batches[0]))
    for batch in batches[1:]:
        dataset = dataset.concatenate(tf.data.Dataset.from_tensors(dict(batch)))
    dataset = dataset.repeat().apply(
        tf.data.experimental.service.distribute(
            processing_mode="parallel_epochs",
            service=(place / "address").read_text(),
            compression=None,
            max_outstanding_requests=CREDITS,
        )
    )
    size = nbytes_of(batches[0])
    for _ in dataset:
        yield size


# --- peers with libraries of their own


def receive_shared(place: Path, megabytes: int) -> Iterator[int]:
    return transport_peers.receive_shared(make_batches, megabytes, core_of("produce"))


def receive_torch(place: Path, megabytes: int) -> Iterator[int]:
    return transport_peers.receive_torch(make_batches, megabytes, core_of("produce"))


def receive_ray(place: Path, megabytes: int) -> Iterator[int]:
    return transport_peers.receive_ray(make_batches, megabytes, core_of("produce"))


# --- running them


def run_role(flags: argparse.Namespace) -> None:
    """One of the two processes of a transport."""
    os.sched_setaffinity(0, {core_of(flags.role)})
    transfer = globals()[f"{flags.role}_{flags.kind}"](flags.place, flags.megabytes)
    if flags.role == "produce":
        return
    meter = Meter(flags.windows, flags.producer_pid)
    result = next(found for num_bytes in transfer if (found := meter.count(num_bytes)))
    print(json.dumps(result), flush=True)
    transfer.close()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)  # the receiving threads would wait for a producer that goes on for ever


def run_once(kind: str, megabytes: int, windows: int, cores: tuple[int, int]) -> dict:
    """One transport at one size: its two processes from start to end."""
    environment = {
        **os.environ,
        "PRODUCER_CORE": str(cores[0]),
        "RECEIVER_CORE": str(cores[1]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with tempfile.TemporaryDirectory(prefix="transport-") as place:
        command = [sys.executable, __file__, "--kind", kind, "--megabytes", str(megabytes),
                   "--place", place, "--windows", str(windows), "--role"]  # fmt: skip
        producer, known = None, []
        if f"produce_{kind}" in globals():
            producer = subprocess.Popen(
                [*command, "produce"], env=environment, stderr=subprocess.DEVNULL
            )
            known = ["--producer-pid", str(producer.pid)]
        try:
            found = subprocess.run(
                [*command, "receive", *known],
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * START_DEADLINE_S + 10 * windows,
                check=False,
            )
        finally:
            if producer:
                producer.send_signal(signal.SIGKILL)
                producer.wait()
    if found.returncode:
        words = [line for line in found.stderr.splitlines() if line.strip()]
        return {"failed": words[-1] if words else f"exit status {found.returncode}"}
    return json.loads(found.stdout.splitlines()[-1])


def lines_of(found: dict, kinds: list[str], sizes: list[int], missing: dict) -> list[Line]:
    """Speed and cost of every transport, and what was promised of Tandem's."""
    lines = []
    for size in sizes:
        for kind in kinds:
            runs = found[kind, size]
            speed, cost = ([run[name] for run in runs] for name in ("gb_per_s", "cpu_s_per_gb"))
            lines.append(Line(f"{size} MB: {kind}", speed, "GB/s"))
            goal = CPU_S_PER_GB_GOAL if kind == "tandem" else None
            lines.append(Line(f"{size} MB: {kind}, receiver", cost, "CPU-s/GB", most=goal))
        tandem = [run["gb_per_s"] for run in found.get(("tandem", size), ())]
        for kind in kinds:
            if tandem and kind not in ("tandem", "memcpy"):
                ratio = ratios(tandem, [run["gb_per_s"] for run in found[kind, size]])
                goal = RATIO_GOALS.get(kind)
                lines.append(Line(f"{size} MB: Tandem / {kind}", ratio, "×", least=goal))
    return lines + [Line(kind, [], note=why) for kind, why in missing.items()]


def main() -> None:
    parser = figures.parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 32], metavar="MB")
    parser.add_argument("--windows", type=int, default=5, help="of half a second, in each run")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--role", choices=("produce", "receive"), help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--megabytes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--producer-pid", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.role:
        run_role(flags)
        return
    available = sorted(os.sched_getaffinity(0))
    cores = (available[0], available[-1])
    print(f"Producer on core {cores[0]}, receiver on core {cores[1]}; {flags.repeats} repeats of "
          f"{flags.windows} windows; load {os.getloadavg()[0]:.1f} at the start", flush=True)  # fmt: skip
    missing = {k: why for k, m in MODULES.items() if k in flags.only and (why := figures.absent(m))}
    kinds = [kind for kind in KINDS if kind in flags.only and kind not in missing]
    results: dict = {(kind, size): [] for kind in kinds for size in flags.sizes}
    for repeat in range(flags.repeats):
        for size in flags.sizes:
            for kind in kinds:
                if kind in missing:
                    continue
                result = run_once(kind, size, flags.windows, cores)
                if "failed" in result:
                    missing[kind] = result["failed"]
                    continue
                results[kind, size].append(result)
                print(f"  {repeat + 1}/{flags.repeats} {size:3} MB {kind:8} "
                      f"{result['gb_per_s']:6.2f} GB/s {result['cpu_s_per_gb']:6.3f} CPU-s/GB"
                      f"   (others used {result['others']:.0%} of the cores)", flush=True)  # fmt: skip
    kinds = [kind for kind in kinds if kind not in missing]
    figures.finish(flags, lines_of(results, kinds, flags.sizes, missing))


if __name__ == "__main__":
    main()
