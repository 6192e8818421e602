"""The server that speaks, in a thread of the test's own process, and a client of it."""

from __future__ import annotations

import http.client
import json
import threading
import time

import uvicorn

from shared.speech.serving.app import make_app
from shared.speech.serving.metrics import ServingMetrics
from shared.speech.serving.served_voice import ServedVoice
from shared.speech.serving.speaking import Speaking

DEADLINE_S = 60
SPEECH = "/v1/audio/speech"


class Served:
    """A server of this process, and a client of it."""

    def __init__(self, voice: ServedVoice, most_at_once: int = 32, token: str | None = None):
        metrics = ServingMetrics()
        self.speaking = Speaking(voice, metrics, 2, most_at_once)
        app = make_app(self.speaking, metrics, token)
        config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self._wait(lambda: self._server.started)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    @staticmethod
    def _wait(condition) -> None:
        until_s = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < until_s
            pause.wait(0.01)

    def ask(self, method: str, path: str, body=None, **headers):
        """Status, headers and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            headers = {"Content_Type": "application/json"} | headers
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def speak(self, text: str, **more):
        return self.ask("POST", SPEECH, {"input": text, "response_format": "wav", **more})

    def is_idle(self) -> bool:
        return b"tandem_requests_under_way 0.0" in self.ask("GET", "/metrics")[2]

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(DEADLINE_S)
        self.speaking.close()
