"""One self-contained HTML page: its frame, light and dark, and the small parts pages are made of."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

# The same names are used by the pictures (see `pictures`), so both follow the reader's setting.
_STYLE = """
:root { color-scheme: light dark;
  --page: #fbfbfa; --panel: #ffffff; --ink: #1d2126; --soft: #5d6670; --line: #dfe3e6;
  --grid: #e6e9ec; --data: #b45f06; --model: #1f6fb2; --good: #2d7d46; --bad: #b3261e;
  --third: #7a4fa3; --fourth: #5f7d1e; --fifth: #a8437a; --sixth: #3b8a87; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171a; --panel: #1c2024; --ink: #e6e9ec; --soft: #9aa4ad; --line: #31373d;
  --grid: #2b3136; --data: #f0a044; --model: #63b1ee; --good: #6cc588; --bad: #ff8a80;
  --third: #c19be8; --fourth: #b0cf66; --fifth: #ec8fbd; --sixth: #71cfcb; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 28px 18px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 10px; }
p { margin: 8px 0; } .soft { color: var(--soft); }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; margin: 10px 0; }
.facts { display: grid; gap: 10px; margin: 18px 0;
  grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); }
.fact { background: var(--panel); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px 14px; }
.fact b { display: block; font-size: 21px; font-weight: 600; overflow-wrap: anywhere;
  line-height: 1.25; }
.fact span { color: var(--soft); font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; min-width: 560px; font-size: 14px; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 500; } tr:last-child td { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { max-width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); }
pre { overflow-x: auto; margin: 0; font-size: 13px; line-height: 1.45; }
summary { cursor: pointer; color: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); }
.samples { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); }
.samples img { width: 100%; border-radius: 6px; display: block; }
audio { width: 100%; margin-top: 8px; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; }
.chips span { border: 1px solid var(--line); border-radius: 6px; padding: 1px 8px; }
.chips i { color: var(--soft); font-style: normal; font-size: 13px; }
"""


# Whatever the data say, a page fetches nothing and runs nothing. One that lives has its rules from
# the server that it lives by.
_NOTHING_FROM_OUTSIDE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; img-src data:; media-src data:\">"
)


def page(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """The whole document. It loads nothing: every picture and sound is inside it."""
    body = f'<h1>{text(title)}</h1><p class="soft">{text(subtitle)}</p>\n' + "\n".join(
        part for part in parts if part
    )
    return frame(title, body)


def frame(title: str, body: str, style: str = "", script: str = "") -> str:
    """A document around HTML; `script` is the address of its program, if it has one."""
    rules = "" if script else _NOTHING_FROM_OUTSIDE
    program = f'<script src="{text(script)}" defer></script>' if script else ""
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # none, or a browser would ask for one
        f"{rules}<title>{text(title)}</title><style>{_STYLE}{style}</style>{program}</head>\n"
        f"<body><main>{body}\n</main></body></html>\n"
    )


def text(value: object) -> str:
    """Any value as text that is safe in HTML."""
    return html.escape(str(value).encode("utf-8", "replace").decode())


def section(heading: str, *parts: str) -> str:
    """A heading with what belongs to it; nothing if that is nothing."""
    inner = "".join(part for part in parts if part)
    return f"<section><h2>{text(heading)}</h2>{inner}</section>" if inner else ""


def panel(inner: str) -> str:
    return f'<div class="panel">{inner}</div>'


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{text(kind)}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def facts(pairs: Iterable[tuple[object, str]]) -> str:
    """Large numbers with what they mean."""
    boxes = "".join(
        f'<div class="fact"><b>{text(value)}</b><span>{text(label)}</span></div>'
        for value, label in pairs
    )
    return f'<div class="facts">{boxes}</div>'


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers stand on the right."""
    rows = [list(row) for row in rows]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(titles))]
    head = "".join(_cell("th", title, right[i]) for i, title in enumerate(titles))
    body = "".join(
        "<tr>" + "".join(_cell("td", value, right[i]) for i, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return panel(f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>')


def folded(summary: str, inner: str, is_open: bool = False) -> str:
    """Details that are shown when asked for."""
    state = " open" if is_open else ""
    return f"<details{state}><summary>{text(summary)}</summary>{inner}</details>"


def _cell(tag: str, value: object, right: bool) -> str:
    kind = ' class="number"' if right else ""
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
    return f"<{tag}{kind}>{text(shown)}</{tag}>"


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.replace(".", "", 1).replace(",", "").isdigit()
    return isinstance(value, (int, float)) and not isinstance(value, bool)
