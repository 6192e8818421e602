"""The page that lives, in headless Chromium: while a run trains, after its end, and of several.

With TANDEM_SCREENSHOTS naming a folder, pictures of it are left there to be looked at.
"""

import dataclasses
import os
import shutil
import threading
from pathlib import Path

import pytest
from page_look import LOOK, assert_readable

from shared.config.toml_file import load_config, write_config
from shared.console.web.serve import LOOPBACK, page_server

READY = """(async () => {
  for (let n = 0; n < 600 && !document.documentElement.dataset.ready; n++)
    await new Promise(done => setTimeout(done, 100));
  document.querySelectorAll("img").forEach(each => each.loading = "eager");
  for (let n = 0; n < 300 && [...document.images].some(each => !each.complete); n++)
    await new Promise(done => setTimeout(done, 100));
})()"""
UNTIL = """(async () => {
  for (let n = 0; n < 600; n++) {
    if (document.body.textContent.includes(%r)) return true;
    await new Promise(done => setTimeout(done, 100));
  }
  return document.body.textContent;
})()"""
WIDTHS = (400, 1200, 2400)


@pytest.fixture
def serve():
    servers = []

    def serve(*paths: Path) -> str:
        server, link = page_server(paths, LOOPBACK, 0)
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        servers.append(server)
        return link

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def look_at(chromium, link, name, widths=WIDTHS):
    """What is seen in each width and scheme; all of it must be readable."""
    chromium.open("about:blank", widths[0], "light")  # the page before asks no more
    chromium.requests.clear()
    chromium.complaints.clear()
    seen = {}
    for scheme in ("light", "dark"):
        for width in widths:
            chromium.open(link, width, scheme)
            chromium.evaluate(READY)
            seen = chromium.evaluate(LOOK)
            if folder := os.environ.get("TANDEM_SCREENSHOTS"):
                chromium.photograph(Path(folder) / f"{name}-{scheme}-{width}.png")
            assert_readable(seen, scheme)
    address = link.partition("?")[0]
    assert all(url.startswith((address, "data:")) for url in chromium.requests)
    assert chromium.complaints == []
    return seen


def test_a_run_that_has_ended_is_whole_on_the_page(chromium, undisturbed, serve):
    seen = look_at(chromium, serve(undisturbed.folder / "run"), "ended")
    assert [h for h in seen["headings"] if h in ("The two GPUs", "Loss", "Samples", "Restarts")]
    assert len(seen["drawings"]) >= 6 and all(seen["drawings"])
    assert len(seen["images"]) >= 2 and all(seen["images"]) and all(seen["sounds"])


def test_two_runs_are_compared_on_the_page(chromium, undisturbed, serve, tmp_path):
    for name, rate in (("first", 0.001), ("second", 0.002)):
        shutil.copytree(undisturbed.folder / "run", tmp_path / name)
        config = load_config(tmp_path / name / "config.toml")
        training = dataclasses.replace(config.training, learning_rate=rate)
        write_config(
            dataclasses.replace(config, training=training), tmp_path / name / "config.toml"
        )
    seen = look_at(chromium, serve(tmp_path), "compared")
    assert "--learning-rate" in seen["text"] and "0.002" in seen["text"]
    assert {"Flags that differ", "Validation loss", "Training loss"} <= set(seen["headings"])
    chromium.evaluate("document.getElementById('by-time').click()")
    assert "of training" in chromium.evaluate("document.getElementById('charts').textContent")


def test_a_run_is_followed_from_training_to_its_end_and_away(chromium, runs, serve):
    command = runs.launch("run", "--max-steps", "100000")
    runs.wait_for_step(command, "run", 2)
    link = serve(runs.folder / "run")
    seen = look_at(chromium, link, "training")
    assert "training" in seen["text"] and "of 100,000" in seen["text"]
    command.process.kill()  # and nobody tells the page
    command.process.wait()
    assert chromium.evaluate(UNTIL % "was killed") is True
    look_at(chromium, link, "failed")
    (runs.folder / "run").rename(runs.folder / "elsewhere")
    assert chromium.evaluate(UNTIL % "not there any more") is True
    look_at(chromium, link, "gone")
