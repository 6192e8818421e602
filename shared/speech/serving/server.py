"""The server's life: it listens, says where, and ends when it is told to."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from shared.devices.cores import num_cores
from shared.errors import InputError
from shared.speech.serving.app import make_app
from shared.speech.serving.metrics import ServingMetrics
from shared.speech.serving.served_voice import ServedVoice
from shared.speech.serving.speaking import Speaking
from shared.speech.text.lexicon import Lexicon

_GRACE_S = 30  # for requests that are under way when the server is told to end
_BACKLOG = 128


def serve(
    folder: Path,
    host: str,
    port: int,
    token: str | None,
    most_at_once: int,
    begun_s: float,
    say: Callable[[str], None],
    lexicon: Lexicon | None = None,
) -> None:
    """Serve an exported voice until a signal; `begun_s` is when the command began, monotonic.

    Raises:
        InputError: the address can't be had, or the voice can't be loaded.
    """
    listener = _listener(host, port)
    metrics = ServingMetrics()
    speaking = Speaking(ServedVoice(folder, lexicon), metrics, num_cores(), most_at_once)
    speaking.warm_up()
    config = uvicorn.Config(
        make_app(speaking, metrics, token), log_level="error", access_log=False, lifespan="off",
        timeout_graceful_shutdown=_GRACE_S, server_header=False, backlog=_BACKLOG, ws="none",
    )  # fmt: skip
    place = listener.getsockname()
    name = f"[{place[0]}]" if ":" in place[0] else place[0]
    voices = ", ".join(speaking.voice.speakers[:4]) + ", …" * (len(speaking.voice.speakers) > 4)
    say(
        f"🌐 http://{name}:{place[1]} speaks as {voices} ({time.monotonic() - begun_s:.1f} s to start)"
    )
    say("   Ctrl-C ends it, once what is asked for already is spoken")
    with listener:
        _Server(config).run([listener])
    speaking.close()
    say("👋 The server has ended")


class _Server(uvicorn.Server):
    """Ends when it is told to, and leaves it at that: a stop that was asked for is no failure."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listener(host: str, port: int) -> socket.socket:
    """Raises InputError where the address can't be had."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:  # the latter of what can be no name
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{host}:{port}: nothing can be served there ({why}). Give --port another one, or 0 for "
            "any that is free."
        ) from None
