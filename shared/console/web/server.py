"""A small server of pages: a thread for each connection, a bound on them, and no answer but to GET.

The one in the standard library is enough. A page has a handful of readers, what it is asked for is
small and made once for all of them, and there is no other dependency to keep safe.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shared.console.web.guard import Guard
from shared.errors import InputError

_MOST_CONNECTIONS = 48
_IDLE_S = 20.0  # that a connection may say nothing
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src 'self' data:; media-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    content: bytes
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK
    headers: dict[str, str] = field(default_factory=dict)


# The parts of the address, its query, and the Range header.
Answers = Callable[[list[str], str, str], Answer]


class PageServer(ThreadingHTTPServer):
    """Serves `answers` to those that the guard lets through."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, host: str, port: int, guard: Guard, answers: Answers):
        """Raises InputError where the address can't be had."""
        self.guard, self.answers = guard, answers
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, UnicodeError) as error:  # the latter of what can be no name
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"{host}:{port}: no page can be served there ({why}). Give "
                "--web another port, or none for any that is free."
            ) from None

    def server_bind(self) -> None:
        # The one of http.server asks a name server for this machine's name, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, as long as there are not too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    """One connection: its requests, one after the other."""

    protocol_version = "HTTP/1.1"  # a page asks every second: it keeps its connection
    server_version, sys_version = "tandem", ""
    timeout = _IDLE_S
    server: PageServer

    def do_GET(self) -> None:
        found = self.server.guard.check(self.command, self.headers.get("Host"), self.path)
        if isinstance(found, HTTPStatus):
            self._send(refused(found))
            return
        _, _, query = self.path.partition("?")
        self._send(self.server.answers(found, query, self.headers.get("Range", "")))

    def __getattr__(self, name: str) -> Any:
        # http.server looks for a method of the request's name; the guard refuses all but one.
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses."""
        self._send(refused(HTTPStatus(code)))

    def _send(self, answer: Answer) -> None:
        if self._has_body():
            self.close_connection = True  # a body is nothing that is read here
        self.send_response(answer.status)
        for name, value in {**_HEADERS, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def _has_body(self) -> bool:
        """Whether the request has a body."""
        headers = getattr(self, "headers", None)
        return headers is None or "Content-Length" in headers or "Transfer-Encoding" in headers

    def log_message(self, format: str, *arguments: Any) -> None:
        """Addresses hold the token: they are written nowhere."""


def refused(status: HTTPStatus) -> Answer:
    """No more than the status."""
    headers = {"Allow": "GET"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}
    words = f"{status.value} {status.phrase}\n"
    return Answer(words.encode(), "text/plain; charset=utf-8", status, headers)
