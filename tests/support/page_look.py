"""What can be seen of a page in a browser: whether it is whole, and whether it can be read."""

from __future__ import annotations

import re
from typing import Any

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
    panel: getComputedStyle(document.querySelector(".panel") || document.body).backgroundColor,
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


def assert_readable(seen: dict[str, Any], scheme: str) -> None:
    """Every colour of words has contrast enough, nothing is too wide, and no number is missing."""
    assert seen["tooWide"] <= 0
    assert not re.findall(r"\b(?:NaN|nan|None|undefined|inf)\b", seen["text"])
    for colour in (*seen["words"], *seen["drawn"]):
        assert contrast(colour, seen["page"]) >= 4.5, (scheme, colour)
        assert contrast(colour, seen["panel"]) >= 4.5, (scheme, colour)
    assert (luminance(seen["page"]) > 0.5) == (scheme == "light")
