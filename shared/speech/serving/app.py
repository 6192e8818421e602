"""The addresses of the server, and what is answered there."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from importlib import resources
from typing import Any

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.speech.serving.metrics import ServingMetrics
from shared.speech.serving.request import MOST_BYTES, RequestRefused, SpeechRequest, read_request
from shared.speech.serving.sound_format import FORMATS, Encoder, encoder_of
from shared.speech.serving.speaking import Speaking

_PATIENCE_S = 60.0  # with a client that takes nothing of what it asked for
_PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
_OPEN = {*_PAGE, "/health"}  # they tell nothing that a token would have to keep
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(speaking: Speaking, metrics: ServingMetrics, token: str | None) -> ASGIApp:
    """The server's application; without a token only this machine's names are answered to."""
    answers = _Answers(speaking, metrics)
    routes = [Route(path, _static(*file)) for path, file in _PAGE.items()]
    routes += [
        Route("/health", answers.health),
        Route("/metrics", answers.metrics),
        Route("/v1/voices", answers.voices),
        Route("/v1/audio/speech", answers.speech, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={
        RequestRefused: _refused, HTTPException: _http_error,
    })  # fmt: skip
    return _Door(app, token)


class _Answers:
    def __init__(self, speaking: Speaking, metrics: ServingMetrics):
        self._speaking, self._metrics = speaking, metrics

    async def health(self, request: Request) -> Response:
        voice = self._speaking.voice
        return JSONResponse({"status": "ok", "step": voice.step, "voices": len(voice.speakers)})

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def voices(self, request: Request) -> Response:
        voice = self._speaking.voice
        voices = [{"id": name, "name": name, "language": voice.language} for name in voice.speakers]
        return JSONResponse({
            "voices": voices, "sample_rate": voice.sample_rate, "formats": list(FORMATS),
        })  # fmt: skip

    async def speech(self, request: Request) -> Response:
        try:
            response = await self._speech(request)
        except RequestRefused as error:
            self._metrics.requests.labels(int(error.status)).inc()
            raise
        self._metrics.requests.labels(response.status_code).inc()
        return response

    async def _speech(self, request: Request) -> Response:
        begun_s = time.perf_counter()
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            # A page of another site could send anything else without being asked.
            raise RequestRefused(
                "Send JSON, with the header Content-Type: application/json.",
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            )
        asked = read_request(await _body(request), self._speaking.voice.speakers)
        self._speaking.enter()
        sound = self._encoded(asked, begun_s)
        try:
            first = await anext(sound)
        except BaseException:
            await sound.aclose()
            raise
        media_type = FORMATS[asked.response_format].media_type
        if not asked.stream:
            await sound.aclose()
            return Response(first, media_type=media_type)
        return _Patient(first, sound, media_type)

    async def _encoded(self, asked: SpeechRequest, begun_s: float) -> AsyncGenerator[bytes, None]:
        """The bytes of the answer: one piece, or one for each sentence; gives the place back."""
        pieces = self._speaking.pieces(asked)
        try:
            encoder = encoder_of(asked.response_format, self._speaking.voice.sample_rate)
            if not asked.stream:
                samples = np.concatenate([piece async for piece in pieces])
                yield await asyncio.to_thread(encoder.add, samples, True)
                return
            is_first = True
            async for piece in pieces:
                if sound := await _added(encoder, piece):
                    if is_first:
                        self._metrics.first_sound.observe(time.perf_counter() - begun_s)
                        is_first = False
                    yield sound
            yield await _added(encoder, np.zeros(0, np.float32), is_last=True)
        finally:
            await pieces.aclose()
            self._speaking.leave()


async def _added(encoder: Encoder, samples: np.ndarray, is_last: bool = False) -> bytes:
    return await asyncio.to_thread(encoder.add, samples, is_last)


async def _body(request: Request) -> bytes:
    """Raises RequestRefused where it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise RequestRefused(
                f"The body is larger than {MOST_BYTES >> 20} MB. Send the text in parts.",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )
    return bytes(body)


class _Patient(StreamingResponse):
    """A stream that ends where its client takes nothing of it for long, or goes away."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], media_type: str):
        async def all_of() -> AsyncIterator[bytes]:
            yield first
            async for each in rest:
                yield each

        super().__init__(all_of(), media_type=media_type)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def in_time(message: Any) -> None:
            async with asyncio.timeout(_PATIENCE_S):
                await send(message)

        try:
            await super().__call__(scope, receive, in_time)
        finally:
            # Here: who goes away early enough is gone before the first piece is asked for.
            await self._rest.aclose()


class _Door:
    """Lets a request in that knows the token or, where there is none, comes from this machine."""

    def __init__(self, app: ASGIApp, token: str | None):
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope["path"], headers)
        answer = self._app if problem is None else _error(problem)
        with contextlib.suppress(ClientDisconnect):
            await answer(scope, receive, send_with_headers)

    def _problem(self, path: str, headers: Mapping[bytes, str]) -> RequestRefused | None:
        if self._token is None:
            if _is_of_this_machine(headers.get(b"host", "")):
                return None
            return RequestRefused(
                "This server speaks for its own machine alone; its address is 127.0.0.1.",
                HTTPStatus.FORBIDDEN,
            )
        kind, _, token = headers.get(b"authorization", "").partition(" ")
        known = kind.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("latin-1"), self._token.encode()
        )
        if path in _OPEN or known:
            return None
        return RequestRefused(
            "The token is missing or wrong: send it with the header Authorization: Bearer TOKEN.",
            HTTPStatus.UNAUTHORIZED,
            {"WWW-Authenticate": "Bearer"},
        )


def _is_of_this_machine(host: str) -> bool:
    """Whether a Host header is a loopback address: a name of another site may be made to lead here."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("shared.speech.serving").joinpath("page", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer


def _error(error: RequestRefused) -> Response:
    """In the form that clients of the convention expect."""
    content = {"error": {"message": str(error), "type": "invalid_request_error"}}
    body = json.dumps(content, ensure_ascii=False).encode()
    return Response(body, error.status, error.headers, "application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return _error(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow")
    words = f"{request.method} {request.url.path}: {error.detail}."
    words += f" It takes {allowed}." if allowed else ""
    return _error(RequestRefused(words, HTTPStatus(error.status_code), error.headers))
