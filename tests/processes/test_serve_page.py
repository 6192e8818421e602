"""The server's page, in headless Chromium: what is typed is heard.

With TANDEM_SCREENSHOTS naming a folder, pictures of it are left there to be looked at.
"""

import os
from pathlib import Path

import pytest
from onnx_voice import write_voice
from page_look import LOOK, assert_readable
from voice_server import Served

from shared.speech.serving.served_voice import ServedVoice

UNTIL = """(async () => {
  for (let n = 0; n < 600; n++) {
    if (%s) return true;
    await new Promise(done => setTimeout(done, 100));
  }
  return document.body.innerText;
})()"""
SPEAK = "document.getElementById('text').value = %r; document.getElementById('speak').click()"
TOLD = "document.getElementById('told').textContent.includes(%r)"
VOICES = "document.getElementById('voice').options.length === 2"


@pytest.fixture(scope="module")
def voice(tmp_path_factory, chromium):
    folder = tmp_path_factory.mktemp("voice")
    write_voice(folder, ["anna", "ben"])
    return ServedVoice(folder)


def test_what_is_typed_is_spoken_and_can_be_heard_again_and_stopped(chromium, voice):
    server = Served(voice)
    try:
        chromium.open("about:blank", 400, "light")
        chromium.complaints.clear()
        link = f"http://127.0.0.1:{server.port}/"
        for scheme, width in (("light", 400), ("dark", 1200)):
            chromium.open(link, width, scheme)
            assert chromium.evaluate(UNTIL % VOICES) is True
            chromium.evaluate(SPEAK % "One red boat. Two red boats.")
            assert chromium.evaluate(UNTIL % (TOLD % "s of speech; first sound after")) is True
            assert_readable(chromium.evaluate(LOOK), scheme)
            if folder := os.environ.get("TANDEM_SCREENSHOTS"):
                chromium.photograph(Path(folder) / f"serve-{scheme}-{width}.png")
        loaded = "document.getElementById('again').duration > 1"
        assert chromium.evaluate(UNTIL % loaded) is True
        chromium.evaluate(SPEAK % ("Red boats. " * 2000))
        assert chromium.evaluate(UNTIL % (TOLD % "Speaking")) is True
        chromium.evaluate("document.getElementById('stop').click()")
        server._wait(server.is_idle)
        assert chromium.evaluate(UNTIL % "!document.getElementById('speak').disabled") is True
        chromium.evaluate(SPEAK % "\u2603")
        assert chromium.evaluate(UNTIL % (TOLD % "nothing in it")) is True
        wrong = [each for each in chromium.complaints if "400 (Bad Request)" not in each]
        assert wrong == []
    finally:
        server.close()


def test_a_page_that_needs_the_token_asks_for_it(chromium, voice):
    server = Served(voice, token="secret")
    try:
        chromium.open(f"http://127.0.0.1:{server.port}/", 1200, "light")
        assert chromium.evaluate(UNTIL % (TOLD % "wants its token")) is True
        chromium.evaluate(
            "document.getElementById('token').value = 'secret';"
            "document.getElementById('token').dispatchEvent(new Event('change'))"
        )
        assert chromium.evaluate(UNTIL % VOICES) is True
        chromium.evaluate(SPEAK % "One red boat.")
        assert chromium.evaluate(UNTIL % (TOLD % "s of speech")) is True
    finally:
        server.close()
