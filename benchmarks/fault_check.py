"""What a disturbed run must show: the same stream once and in order, and the same weights."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

from fault_runs import read_lines


def stream_violations(audit: list[dict], reference: list[dict]) -> list[str]:
    """Batches that were lost, repeated, reordered or made differently."""
    numbers = [record["batch_index"] for record in audit]
    expected = [record["batch_index"] for record in reference]
    found = [f"batch {n} was lost" for n in sorted(set(expected) - set(numbers))]
    found += [f"batch {n} was never asked for" for n in sorted(set(numbers) - set(expected))]
    found += [f"batch {n} was trained twice" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    if sorted(numbers) != numbers:
        found.append("batches were trained out of order")
    content = {record["batch_index"]: record for record in reference}
    found += [
        f"batch {record['batch_index']} holds something else"
        for record in audit
        if record != content.get(record["batch_index"], record)
    ]
    return found


def weights_of(run: Path) -> dict[str, str]:
    """SHA-256 of the arrays of the last checkpoint, read from the files themselves."""
    last = max((run / "checkpoints").glob("step-*"), default=None)
    if last is None:
        return {}
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(last.glob("*.safetensors"))}  # fmt: skip
    return {"step": last.name[:13], **sums}


def weight_violations(run: Path, reference: Path) -> list[str]:
    ours, theirs = weights_of(run), weights_of(reference)
    if not theirs:
        return ["the undisturbed run has no checkpoint"]
    names = sorted({*ours, *theirs})
    return [f"{name} differs: {ours.get(name, 'missing')[:16]} instead of "
            f"{theirs.get(name, 'missing')[:16]}" for name in names
            if ours.get(name) != theirs.get(name)]  # fmt: skip


def violations_of(run: Path, reference: Path) -> list[str]:
    """Everything in which a finished run differs from the undisturbed one."""
    audits = [read_lines(folder / "audit.jsonl") for folder in (run, reference)]
    found = stream_violations(*audits) + weight_violations(run, reference)
    for log in ("output.txt", "launcher.log"):
        if "Traceback" in (run / log).read_text(encoding="utf-8", errors="replace"):
            found.append(f"a traceback in {log}")
    return found


def longest_wait_ms(run: Path) -> float:
    """The longest wait for a batch while the queue held one.

    A step's record has the queue's depth after the step, the next one's the wait before it.
    """
    records = [r for r in read_lines(run / "metrics.jsonl") if "data_wait_ms" in r]
    return max(
        (
            after["data_wait_ms"]
            for before, after in itertools.pairwise(records)
            if before["queue_depth"] > 0 and after["step"] == before["step"] + 1
        ),
        default=0.0,
    )
