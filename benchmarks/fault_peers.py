"""Garbage peers: random bytes, damaged messages and half handshakes at a run's own socket."""

from __future__ import annotations

import random
import socket
import threading
from pathlib import Path

import zmq
from fault_kinds import Told
from fault_runs import Run
from fuzz_messages import damaged_message

from shared.config.toml_file import load_config
from shared.stream.endpoints import default_endpoint

_PAUSE_S = 0.05  # between messages of one peer: it should be a nuisance, not a load test


class GarbagePeers:
    """Three peers that never say anything sensible, for as long as the run lives."""

    def __init__(self, rng: random.Random, told: Told):
        self._seeds = [rng.randrange(2**32) for _ in range(3)]
        self._told = told
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def act(self, run: Run, now_s: float) -> None:
        if self._threads or not run.lives_of("model_worker"):
            return
        endpoint = default_endpoint(load_config(run.folder / "config.toml").run.run_id or "")
        for target, seed in zip((self._damaged, self._raw, self._half_open), self._seeds,
                                strict=True):  # fmt: skip
            thread = threading.Thread(target=target, args=(endpoint, random.Random(seed)))
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _damaged(self, endpoint: str, rng: random.Random) -> None:
        """Speaks ZeroMQ, but not our protocol."""
        context = zmq.Context()
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.SNDTIMEO, 100)
        peer.connect(endpoint)
        while not self._stop.wait(_PAUSE_S):
            try:
                peer.send_multipart(damaged_message(rng) or [b""])
                self._told.count("garbage message")
            except zmq.Again:
                continue
        peer.close()
        context.term()

    def _raw(self, endpoint: str, rng: random.Random) -> None:
        """Does not even speak ZeroMQ."""
        while not self._stop.wait(_PAUSE_S):
            greeting = rng.choice([b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(rng.randrange(1, 300))])
            self._connect_and_send(endpoint, greeting, hold_s=0.0)

    def _half_open(self, endpoint: str, rng: random.Random) -> None:
        """Begins ZeroMQ's greeting and falls silent."""
        greeting = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01NULL" + b"\0" * 48
        while not self._stop.wait(_PAUSE_S):
            self._connect_and_send(endpoint, greeting[: rng.randrange(1, 64)], rng.uniform(0, 3))

    def _connect_and_send(self, endpoint: str, content: bytes, hold_s: float) -> None:
        path = Path(endpoint.removeprefix("ipc://"))
        with socket.socket(socket.AF_UNIX) as peer:
            try:
                peer.connect(str(path))
                peer.sendall(content)
            except OSError:
                return  # nobody listens just now
            self._told.count("garbage connection")
            self._stop.wait(hold_s)
