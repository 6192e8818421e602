"""The pages that people get, in headless Chromium: a run's report and what check-data writes.

With TANDEM_SCREENSHOTS naming a folder, pictures of them are left there to be looked at.
"""

import os
import shutil
from pathlib import Path

import pytest
from documents import the_documented
from page_look import LOOK, assert_readable

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


@pytest.mark.parametrize(
    ("name", "sections", "num_samples"),
    [("report", REPORT_SECTIONS, 2), ("data_page", DATA_SECTIONS, 0)],
)
def test_the_page_is_whole_and_readable_in_light_and_dark(
    request, chromium, name, sections, num_samples
):
    path = request.getfixturevalue(name)
    chromium.open("about:blank", WIDE, "light")  # a page that another test has left may still ask
    chromium.requests.clear()
    chromium.complaints.clear()
    for scheme, width in (("light", WIDE), ("dark", WIDE), ("dark", NARROW)):
        chromium.open(path, width, scheme)
        seen = chromium.evaluate(LOOK)
        if folder := os.environ.get("TANDEM_SCREENSHOTS"):
            chromium.photograph(Path(folder) / f"{name}-{scheme}-{width}.png")
        for heading, wanted in zip(seen["headings"], sections, strict=True):
            assert heading.startswith(wanted)
        assert len(seen["drawings"]) >= 3 and all(seen["drawings"])
        assert len(seen["images"]) >= num_samples
        # Each is there as it was recorded too, once, which has no picture of its own.
        assert len(seen["sounds"]) - len(seen["images"]) == num_samples
        assert all(seen["images"]) and all(seen["sounds"])
        assert_readable(seen, scheme)
    # It is all in the one file.
    assert {url.partition(":")[0] for url in chromium.requests} <= {"file", "data"}
    assert {url for url in chromium.requests if url.startswith("file:")} == {path.as_uri()}
    assert chromium.complaints == []
