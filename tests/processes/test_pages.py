"""The pages that people get, in headless Chromium: a run's report and what check-data writes.

With TANDEM_SCREENSHOTS naming a folder, pictures of them are left there to be looked at.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from chromium import PROGRAM, Chromium
from documents import the_documented

REPORT_SECTIONS = [
    "The two GPUs", "Loss", "Where the time went", "Padding and speed", "Samples", "Left out",
    "Restarts", "Configuration", "Devices and versions",
]  # fmt: skip
DATA_SECTIONS = [
    "Rows that would not be used: 2",
    "Lengths",
    "Worth a look",
    "Suggested",
    "Speakers",
    "Symbols",
]
WIDE, NARROW = 1200, 400
LOOK = """(async () => {
  for (const sound of document.querySelectorAll("audio"))
    for (let n = 0; n < 500 && !sound.readyState && !sound.error; n++)
      await new Promise(done => setTimeout(done, 10));
  const styles = selector => [...document.querySelectorAll(selector)].map(e => getComputedStyle(e));
  return {
    headings: [...document.querySelectorAll("h2")].map(e => e.textContent),
    text: document.body.textContent,
    images: [...document.images].map(e => e.complete && e.naturalWidth > 0 && e.naturalHeight > 0),
    sounds: [...document.querySelectorAll("audio")].map(e => e.duration > 0.1 && !e.error),
    drawings: [...document.querySelectorAll("svg[role=img]")].map(
      e => e.getBoundingClientRect().width > 200 && e.querySelectorAll("text").length > 4),
    page: getComputedStyle(document.body).backgroundColor,
    panel: getComputedStyle(document.querySelector(".panel")).backgroundColor,
    words: [...new Set(styles("h1, h2, p, td, th, b, span, pre, summary").map(s => s.color))],
    drawn: [...new Set(styles("svg text").map(s => s.fill))],
    tooWide: document.documentElement.scrollWidth - innerWidth,
  };
})()"""


def luminance(colour: str) -> float:
    """Of `rgb(r, g, b)`, as WCAG defines it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture
def report(undisturbed) -> Path:
    return undisturbed.folder / "run" / "report.html"


@pytest.fixture
def data_page(checkout) -> Path:
    """The page of a corpus with a recording that is cut short and one that is not there."""
    corpus = checkout.folder / "my-voice"
    corpus.unlink()
    shutil.copytree(checkout.corpus, corpus)
    first, second, *_ = sorted((corpus / "wavs").iterdir())
    first.write_bytes(first.read_bytes()[:2000])
    second.unlink()
    command = checkout.documented(the_documented("check-data", "--html"))
    assert command.wait() == 1, command.text  # some rows would be left out
    assert command.text.rstrip().endswith("📄 The same with pictures: page.html")
    return checkout.folder / "page.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not PROGRAM:
        pytest.skip("Chromium is not installed here (Debian's package is called chromium)")
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.mark.parametrize(
    ("name", "sections", "num_samples"),
    [("report", REPORT_SECTIONS, 2), ("data_page", DATA_SECTIONS, 0)],
)
def test_the_page_is_whole_and_readable_in_light_and_dark(
    request, chromium, name, sections, num_samples
):
    path = request.getfixturevalue(name)
    chromium.requests.clear()
    chromium.complaints.clear()
    backgrounds = set()
    for scheme, width in (("light", WIDE), ("dark", WIDE), ("dark", NARROW)):
        chromium.open(path, width, scheme)
        seen = chromium.evaluate(LOOK)
        if folder := os.environ.get("TANDEM_SCREENSHOTS"):
            chromium.photograph(Path(folder) / f"{name}-{scheme}-{width}.png")
        for heading, wanted in zip(seen["headings"], sections, strict=True):
            assert heading.startswith(wanted)
        assert not re.findall(r"\b(?:NaN|nan|None|undefined|inf)\b", seen["text"])
        assert len(seen["drawings"]) >= 3 and all(seen["drawings"])
        assert len(seen["images"]) >= num_samples
        # Each is there as it was recorded too, once, which has no picture of its own.
        assert len(seen["sounds"]) - len(seen["images"]) == num_samples
        assert all(seen["images"]) and all(seen["sounds"])
        assert seen["tooWide"] <= 0
        for colour in (*seen["words"], *seen["drawn"]):
            assert contrast(colour, seen["page"]) >= 4.5, (scheme, colour)
            assert contrast(colour, seen["panel"]) >= 4.5, (scheme, colour)
        backgrounds.add((scheme, luminance(seen["page"]) > 0.5))
    assert backgrounds == {("light", True), ("dark", False)}
    # It is all in the one file.
    assert {url.partition(":")[0] for url in chromium.requests} <= {"file", "data"}
    assert {url for url in chromium.requests if url.startswith("file:")} == {path.as_uri()}
    assert chromium.complaints == []
