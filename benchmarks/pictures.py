"""The pictures of the docs, drawn from what the benchmarks found."""

from __future__ import annotations

from pathlib import Path

from results import Line, lines_of, number

# Of each question: which lines are drawn (by the beginning of their name, and its end or their
# unit), and along which axis.
BARS = {
    "overlap": ("", " / limit", "share of the slower side's own speed", False),
    "python_overlap": ("", " / limit", "share of the slower side's own speed", False),
    "transport": ("8 MB: ", "GB/s", "GB/s of batches of 8 MB", False),
    "resume": ("", "at step 1,000,000", "milliseconds to the first batch at step 1,000,000", True),
    "file_to_batch": (
        "",
        "s of speech/s",
        "seconds of speech per second, from files, one core",
        False,
    ),
    "features": (
        "log mel: ",
        "× real time",
        "seconds of speech per second, log mel, one core",
        False,
    ),
    "slow_storage": ("", "batches/s", "batches per second, 20 ms before every file", False),
}
OURS, THEIRS = "#1f6f8b", "#b8b8b8"


def draw(store: dict, folder: Path) -> None:
    """One SVG for each question that has a picture and figures."""
    folder.mkdir(exist_ok=True)
    for name, (beginning, ending, label, logarithmic) in BARS.items():
        lines = [
            line
            for line in lines_of(store.get(name, {}).get("lines", []))
            if line.values
            and line.name.startswith(beginning)
            and (line.name.endswith(ending) or line.unit == ending)
        ]
        names = [
            line.name.removeprefix(beginning).removesuffix(ending).removesuffix(": first batch ")
            for line in lines
        ]
        if lines:
            _bars(lines, names, label, logarithmic, folder / f"{name}.svg")


def _bars(lines: list[Line], names: list[str], label: str, logarithmic: bool, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tandem"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.42 * len(lines) + 1), layout="constrained")
    colours = [OURS if "tandem" in name.lower() else THEIRS for name in names]
    medians = [line.median for line in lines]
    low = [line.median - min(line.values) for line in lines]
    high = [max(line.values) - line.median for line in lines]
    axes.barh(names, medians, xerr=[low, high], color=colours, error_kw={"lw": 1, "capsize": 2})
    for place, median in enumerate(medians):
        axes.annotate(number(median), (median, place), xytext=(6, 0), textcoords="offset points",
                      va="bottom", fontsize=8)  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel(label)
    if logarithmic:
        axes.set_xscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
