"""What check-data found, as a page with pictures."""

from __future__ import annotations

import time

from matplotlib.figure import Figure

from shared.console.memory_text import PREDICTED, heading, table_of_memory
from shared.console.page import facts, folded, page, panel, paragraph, section, table, text
from shared.console.pictures import MODEL, bars, draw, plain_ticks

_MOST_ROWS = 5_000  # of a table; a page of more is no longer read
_SPEAKERS_SHOWN = 60
_SYMBOLS_DRAWN = 60


def data_page(findings: dict) -> str:
    """The whole page."""
    summary, problems = findings["summary"], findings["problems"]
    parts = [_verdict(summary, problems), _facts(summary), _problems(problems)]
    if summary["usable"]:
        parts += [
            _lengths(summary),
            _outliers(summary),
            _suggestion(summary["suggestion"]),
            _memory(summary["memory"]),
            _speakers(summary["speakers"]),
            _symbols(summary),
        ]
    day = time.strftime("%Y-%m-%d %H:%M")
    return page("Data check", f"{summary['data']} · {summary['format']} · {day}", parts)


def _verdict(summary: dict, problems: list[dict]) -> str:
    if summary["refusal"]:
        return paragraph(f"A run would refuse this data set: {summary['refusal']}", "bad")
    if problems:
        words = f"A run would use {summary['usable']:,} rows and leave out {len(problems):,}."
        return paragraph(words)
    return paragraph(f"All {summary['usable']:,} rows can be used.", "good")


def _facts(summary: dict) -> str:
    pairs = [
        (f"{summary['usable']:,}", f"usable of {summary['rows']:,} rows"),
        (f"{summary['bad']:,}", "bad rows"),
        (f"{summary['filtered']:,}", "filtered rows (too long, too short)"),
    ]
    if summary["usable"]:
        length = summary["utterance_seconds"]
        pairs += [
            (f"{summary['hours']:.2f} h", "of speech without silence at the ends"),
            (f"{summary['train']:,} + {summary['validation']:,}", "to train on + held out"),
            (f"{len(summary['speakers']):,}", "speakers"),
            (f"{length['median']:.1f} s", f"median; {length['min']:.1f} to {length['max']:.1f} s"),
            (
                " · ".join(f"{int(rate):,}" for rate in list(summary["sample_rates"])[:4]),
                "Hz sample rates",
            ),
        ]
    return facts(pairs)


def _problems(problems: list[dict]) -> str:
    shown = problems[:_MOST_ROWS]
    more = ""
    if len(problems) > len(shown):
        more = paragraph(f"… and {len(problems) - len(shown):,} more; --json names them all.")
    listed = table(
        ("line", "id", "file", "why it would not be used"),
        ([p["line"], p["id"], p["path"], p["reason"]] for p in shown),
    )
    return section(f"Rows that would not be used: {len(problems):,}", listed, more) if shown else ""


def _lengths(summary: dict) -> str:
    duration = bars(
        "Histogram of durations", summary["duration_histogram"], "seconds", "utterances"
    )
    speed = bars(
        "Histogram of characters per second",
        summary["characters_per_second_histogram"],
        "characters per second",
        "utterances",
    )
    return section("Lengths", f'<div class="samples">{panel(duration)}{panel(speed)}</div>')


def _outliers(summary: dict) -> str:
    outliers = summary["outliers"]
    counted = ", ".join(f"{count:,} {kind}" for kind, count in summary["outlier_counts"].items())
    listed = []
    if outliers:
        rows = [[o["line"], o["id"], o["kind"], o["note"]] for o in outliers[:_MOST_ROWS]]
        named = table(("line", "id", "what", "note"), rows)
        listed = [paragraph(f"Usable, but: {counted}.")]
        listed.append(named if len(rows) <= 40 else folded("Each of them", named))
        if len(outliers) > len(rows):
            left = len(outliers) - len(rows)
            listed.append(paragraph(f"… and {left:,} more; --json names them all.", "soft"))
    else:
        listed = [paragraph("Nothing stands out among the usable rows.", "soft")]
    if summary["verify"] != "decode":
        listed.append(
            paragraph(
                "Only headers were read, so clipping, silence and equal audio were not looked for; "
                "--verify decode does.",
                "soft",
            )
        )
    if summary["texts_of_several_speakers"]:
        listed.append(
            paragraph(
                f"{summary['texts_of_several_speakers']:,} texts are said by several speakers, which "
                "is fine.",
                "soft",
            )
        )
    return section("Worth a look", *listed)


def _suggestion(suggestion: dict) -> str:
    flags = f"--batch-size {suggestion['batch_size']} --buffer-size {suggestion['buffer_size']}"
    num_buckets = len(suggestion["buckets"])
    buckets = table(
        ("up to seconds", "frames", "symbols", "utterances", "batches an epoch"),
        (
            [f"{b['up_to_seconds']:.2f}", b["frames"], b["symbols"], b["utterances"], b["batches"]]
            for b in suggestion["buckets"]
        ),
    )
    return section(
        "Suggested",
        panel(f"<pre>{text(flags)}</pre>"),
        paragraph(f"Why: {suggestion['why']}.", "soft"),
        *(paragraph(remark) for remark in suggestion["remarks"]),
        paragraph(
            f"{num_buckets} length bucket{'s make' if num_buckets != 1 else ' makes'} "
            f"{suggestion['batches_per_epoch']:,} "
            f"batches an epoch; {suggestion['padding_fraction']:.1%} of their frames are padding."
        ),
        buckets,
    )


def _memory(memory: dict | None) -> str:
    if memory is None:
        return ""
    names, *rows = table_of_memory(memory)
    return section(heading(memory), table(names, rows), paragraph(PREDICTED, "soft"))


def _speakers(speakers: list[dict]) -> str:
    rows = ([s["name"], s["utterances"], f"{s['hours']:.2f}"] for s in speakers[:_SPEAKERS_SHOWN])
    more = ""
    if len(speakers) > _SPEAKERS_SHOWN:
        more = paragraph(f"… and {len(speakers) - _SPEAKERS_SHOWN:,} more.", "soft")
    return section("Speakers", table(("name", "utterances", "hours"), rows), more)


def _symbols(summary: dict) -> str:
    symbols = summary["symbols"]
    drawn = symbols[:_SYMBOLS_DRAWN]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.bar(range(len(drawn)), [s["count"] for s in drawn], color=MODEL, alpha=0.85)
        axes.set_yscale("log")
        plain_ticks(axes)
        axes.set_xticks(range(len(drawn)), [_visible(s["symbol"]) for s in drawn])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, len(drawn) - 0.4)
        axes.set_ylabel("times")
        axes.grid(visible=False, axis="x")

    chips = "".join(
        f"<span>{text(_visible(s['symbol']))} <i>{s['count']:,}</i></span>" for s in symbols
    )
    unspoken = ""
    if summary["unspoken"]:
        named = "  ".join(f"{u['character']} ({u['rows']:,})" for u in summary["unspoken"])
        unspoken = paragraph(f"Not spoken, with the number of rows they are in: {named}", "soft")
    return section(
        f"Symbols: {len(symbols)}",
        panel(draw("How often each symbol occurs", 2.3, paint)),
        folded("Every symbol with its count", panel(f'<div class="chips">{chips}</div>')),
        unspoken,
    )


def _visible(symbol: str) -> str:
    return "␣" if symbol == " " else symbol if symbol.isprintable() else repr(symbol)[1:-1]
