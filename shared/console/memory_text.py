"""What steps will take of a GPU's memory, as a table: of the values of a MemoryTable."""

from __future__ import annotations

from collections.abc import Iterator

from shared.worker.memory_ahead import LIBRARIES_MB

PREDICTED = (
    f"Predicted from the traced step, and {LIBRARIES_MB / 1024:.0f} GB kept for CUDA's own libraries; "
    "not measured."
)


def memory_lines(found: dict) -> Iterator[str]:
    """A heading, a row for each size and a remark."""
    yield heading(found)
    names, *rows = table_of_memory(found)
    sizes = [len(cells[0]) for cells in rows]
    for cells in (names, *rows):
        numbers = "".join(f"{cell:>10}" for cell in cells[1:])
        yield f"   {cells[0]:{max(6, *sizes)}}{numbers}"
    yield f"   {PREDICTED}"


def table_of_memory(found: dict) -> list[list[str]]:
    """The names of the columns, then a row for each size."""
    fits, free_mb = found["fits"], found["free_mb"]
    names = ["", *(f"{rows} rows" for rows in fits[0]["megabytes"])]
    lines = [names + ["fit"] * bool(free_mb)]
    for fit in fits:
        cells = [fit["size"], *(f"{mb / 1024:.1f} GB" for mb in fit["megabytes"].values())]
        lines.append(cells + [f"{fit['most_rows']} rows"] * bool(free_mb))
    return lines


def heading(found: dict) -> str:
    """What the table is about."""
    lengths = ", ".join(f"{length:,} {name}" for name, length in found["lengths"].items())
    of = f"batches of {lengths}; " if lengths else ""
    free = f"; {found['free_mb'] / 1024:.1f} GB free" if found["free_mb"] else ""
    return f"Memory that a step takes on a GPU ({of}{found['precision']}{free})"
