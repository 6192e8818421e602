"""What check-data found, as text: coloured on a terminal, plain elsewhere, safe at any width."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator

from shared.console.memory_text import memory_lines

_SHOWN_PER_KIND = 10
_PLAIN_WIDTH = 100
_RARE = 5
_BARS = " ▏▎▍▌▋▊▉█"


def show_findings(findings: dict) -> None:
    """Print everything; a reader that has gone away is no error."""
    on_terminal = sys.stdout.isatty() and os.environ.get("TERM") not in (None, "dumb")
    coloured = on_terminal and "NO_COLOR" not in os.environ
    width = max(20, shutil.get_terminal_size().columns) if on_terminal else _PLAIN_WIDTH
    try:
        for line in findings_in_words(findings, width):
            if coloured and line and not line.startswith(" "):
                line = f"\x1b[1m{line}\x1b[0m"
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def findings_in_words(findings: dict, width: int) -> list[str]:
    """The lines; headings are those that begin in the first column."""
    summary = findings["summary"]
    lines = [*_numbers(summary, width)]
    if summary["usable"]:
        lines += ["", "Duration in seconds", *_bars(summary["duration_histogram"], width)]
        lines += ["", "Characters per second"]
        lines += _bars(summary["characters_per_second_histogram"], width)
        lines += [*_symbols(summary, width), *_outliers(summary, width)]
        lines += _suggestion(summary["suggestion"], width)
        lines += _memory(summary["memory"], width)
    lines += _problems(findings["problems"], width)
    if summary["refusal"]:
        lines += ["", *_wrapped(f"❌ A run would refuse this: {summary['refusal']}", width, "   ")]
    elif not findings["problems"]:
        lines += ["", f"✅ All {summary['usable']:,} rows can be used."]
    else:
        words = f"✅ A run would use {summary['usable']:,} rows and leave out {len(findings['problems']):,}."
        lines += ["", words]
    return lines


def _wrapped(text: str, width: int, indent: str = "     ", first: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    ) or [first]


def _numbers(summary: dict, width: int) -> Iterator[str]:
    yield from _wrapped(f"📂 {summary['data']}", width, "   ")
    left_out = summary["bad"] + summary["filtered"]
    yield from _wrapped(
        f"{summary['usable']:,} of {summary['rows']:,} rows can be used; {left_out:,} can't "
        f"({summary['bad']:,} bad, {summary['filtered']:,} filtered). "
        f"Format {summary['format']}; {_looked(summary['verify'])}.",
        width,
        "   ",
        "   ",
    )
    if not summary["usable"]:
        return
    length = summary["utterance_seconds"]
    yield from _wrapped(
        f"{summary['hours']:.2f} hours; {summary['train']:,} utterances to train on, "
        f"{summary['validation']:,} held out; {length['min']:.1f} to "
        f"{length['max']:.1f} s, half of them under {length['median']:.1f} s.",
        width,
        "   ",
        "   ",
    )
    speakers = summary["speakers"]
    named = ", ".join(
        f"{s['name']} ({s['utterances']:,}, {s['hours']:.2f} h)" for s in speakers[:8]
    )
    more = f" and {len(speakers) - 8:,} more" if len(speakers) > 8 else ""
    yield from _wrapped(
        f"{len(speakers):,} speaker{'s' * (len(speakers) != 1)}: {named}{more}.",
        width,
        "   ",
        "   ",
    )
    rates = ", ".join(f"{int(rate):,} Hz ({n:,})" for rate, n in summary["sample_rates"].items())
    yield from _wrapped(f"Sample rates: {rates}.", width, "   ", "   ")


def _looked(verify: str) -> str:
    return (
        "every file was decoded"
        if verify == "decode"
        else (
            "only headers were read, so clipping, silence and equal audio were not looked for "
            "(--verify decode does)"
        )
    )


def _bars(histogram: dict, width: int) -> Iterator[str]:
    edges, counts = histogram["edges"], histogram["counts"]
    digits = 0 if all(float(edge).is_integer() for edge in edges) else 1
    bin_width = max(1e-4, round(edges[1] - edges[0], 6))
    if bin_width < 0.1:
        digits = math.ceil(-math.log10(bin_width))
    labels = [f"{low:.{digits}f}–{high:.{digits}f}" for low, high in itertools.pairwise(edges)]
    if histogram["last_is_open"]:
        labels[-1] = f"{edges[-2]:.{digits}f}–"
    label_width, count_width = max(map(len, labels)), len(f"{max(counts):,}")
    room = max(4, min(60, width - label_width - count_width - 7))
    for label, count in zip(labels, counts, strict=True):
        eighths = round(8 * room * count / max(1, max(counts)))
        bar = "█" * (eighths // 8) + _BARS[eighths % 8].strip()
        yield f"   {label:>{label_width}} {count:>{count_width},} {bar or ('▏' if count else '')}"


def _symbols(summary: dict, width: int) -> Iterator[str]:
    symbols = summary["symbols"]
    yield ""
    yield f"{len(symbols)} symbols and how often"
    yield from _wrapped(
        "  ".join(f"{_visible(s['symbol'])}\u00a0{s['count']:,}" for s in symbols),
        width,
        "   ",
        "   ",
    )
    rare = [_visible(s["symbol"]) for s in symbols if s["count"] < _RARE]
    if rare:
        yield from _wrapped(
            f"Too rare to be learnt (under {_RARE} times): {' '.join(rare)}", width, "   ", "   "
        )
    if summary["unspoken"]:
        named = "  ".join(
            f"{_visible(u['character'])}\u00a0{u['rows']:,}" for u in summary["unspoken"]
        )
        yield from _wrapped(f"Not spoken, with the rows they are in: {named}", width, "   ", "   ")


def _visible(symbol: str) -> str:
    return "␣" if symbol == " " else symbol if symbol.isprintable() else repr(symbol)[1:-1]


def _outliers(summary: dict, width: int) -> Iterator[str]:
    yield ""
    total = len(summary["outliers"])
    yield f"{total:,} worth a look" if total else "Nothing stands out among the usable rows"
    for kind, count in summary["outlier_counts"].items():
        yield from _wrapped(f"{kind}: {count:,}", width, "   ", "   ")
        shown = [o for o in summary["outliers"] if o["kind"] == kind][:_SHOWN_PER_KIND]
        for outlier in shown:
            yield from _wrapped(
                f"line {outlier['line']}, {outlier['id']}: {outlier['note']}",
                width,
                "       ",
                "     ",
            )
        if count > len(shown):
            yield from _wrapped(
                f"… and {count - len(shown):,} more; --json names them all",
                width,
                "     ",
                "     ",
            )
    if summary["texts_of_several_speakers"]:
        yield from _wrapped(
            f"{summary['texts_of_several_speakers']:,} texts are said by several speakers, "
            "which is fine.",
            width,
            "   ",
            "   ",
        )


def _suggestion(suggestion: dict, width: int) -> Iterator[str]:
    yield ""
    yield "Suggested"
    yield from _wrapped(
        f"--batch-size {suggestion['batch_size']} --buffer-size {suggestion['buffer_size']} "
        f"({suggestion['why']})",
        width,
        "   ",
        "   ",
    )
    for remark in suggestion["remarks"]:
        yield from _wrapped(remark, width, "   ", "   ")
    num_buckets = len(suggestion["buckets"])
    yield from _wrapped(
        f"{num_buckets} bucket{'s' * (num_buckets != 1)}, {suggestion['batches_per_epoch']:,} "
        f"batches an epoch, {suggestion['padding_fraction']:.1%} of their frames padding:",
        width,
        "   ",
        "   ",
    )
    for bucket in suggestion["buckets"]:
        yield from _wrapped(
            f"up to {bucket['up_to_seconds']:5.2f} s: {bucket['frames']:,} frames, "
            f"{bucket['symbols']:,} symbols, {bucket['utterances']:,} utterances",
            width,
            "       ",
            "     ",
        )


def _memory(memory: dict | None, width: int) -> Iterator[str]:
    if memory is None:
        return
    yield ""
    first, *rows, last = memory_lines(memory)
    yield from _wrapped(first, width, "   ")
    yield from (line[:width] for line in rows)
    yield from _wrapped(last.strip(), width, "   ", "   ")


def _problems(problems: list[dict], width: int) -> Iterator[str]:
    if not problems:
        return
    yield ""
    yield f"{len(problems):,} rows would not be used"
    for problem in problems:
        name = problem["id"] or problem["path"] or "no id"
        yield from _wrapped(
            f"line {problem['line']}, {name}: {problem['reason']}", width, "     ", "   "
        )
