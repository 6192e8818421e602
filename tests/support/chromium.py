"""A page in headless Chromium, looked at through its debugging pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_DEADLINE_S = 60.0
_COMMANDS, _ANSWERS = 3, 4  # the descriptors that Chromium reads and writes


class Chromium:
    """One page; a context manager. What it asked the network for and complained of is kept."""

    def __init__(self, profile: Path):
        """`profile`: a fresh folder of its own."""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._unread = b""
        self._loaded = False
        for_commands, self._commands = os.pipe()
        self._answers, for_answers = os.pipe()

        def give_pipes() -> None:
            # Through numbers that neither of the two has yet.
            reading, writing = (os.dup(os.dup(fd)) for fd in (for_commands, for_answers))
            os.dup2(reading, _COMMANDS)
            os.dup2(writing, _ANSWERS)

        self._process = subprocess.Popen(
            [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)}, preexec_fn=give_pipes, close_fds=False,
        )  # fmt: skip
        os.close(for_commands)
        os.close(for_answers)

    def __enter__(self) -> Chromium:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self._ask("Browser.close")
            self._process.wait(_DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._commands)
            os.close(self._answers)

    def open(self, page: Path | str, width: int, scheme: str) -> None:
        """Show a file, or an address, in a window of this width, to who likes it light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._ask("Emulation.setEmulatedMedia", features=[feature])
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self._loaded = False
        self._ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not self._loaded:
            self._read_one()

    def evaluate(self, script: str) -> Any:
        """The value of an expression, once it has one; the page's own rules do not bind it."""
        found = self._ask(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,  # sound plays for nobody who did nothing
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def photograph(self, path: Path) -> None:
        """A picture of the whole page."""
        taken = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read_one()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _read_one(self) -> dict:
        until_s = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._unread:
            left_s = max(0.0, until_s - time.monotonic())
            assert select.select([self._answers], [], [], left_s)[0], "Chromium does not answer"
            piece = os.read(self._answers, 1 << 20)
            assert piece, f"Chromium has ended with status {self._process.poll()}"
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, told: dict) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
