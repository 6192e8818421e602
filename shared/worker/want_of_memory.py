"""Memory that ran out: recognised in whatever words a library has for it, and told with what fits."""

from __future__ import annotations

import re

from shared.task import BatchShape

# Of TensorFlow's errors only the words tell. cuDNN finds no algorithm where none has room to work in.
_WORDS = (
    "out of memory", "oom when allocating", "no algorithm worked", "alloc failed",
    "failed to allocate", "resource exhausted",
)  # fmt: skip
_ASKED = (
    re.compile(r"OOM when allocating tensor with shape ?(\[[\d,]*\]) and type (\w+)"),
    re.compile(r"allocate ([\d.]+ ?[KMGT]i?B)"),
)
NEEDS_LESS = (
    "A smaller --batch-size (with --grad-accum to make up for it), a smaller --model-size or a lower "
    "--max-seconds needs less; give another --run-dir with it"
)


class BatchTooLarge(MemoryError):
    """There was no room for a batch; the message says for which, and what needs less."""


def is_want_of_memory(error: BaseException) -> bool:
    """Whether what failed was an allocation, of the machine or of its GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return True
    words = str(error).lower().replace("_", " ")
    return any(each in words for each in _WORDS)


def too_large(error: BaseException, shape: BatchShape, grad_accum: int) -> BatchTooLarge:
    """What a failure of this batch is told as."""
    names = ", ".join(
        f"{length} {name.removeprefix('num_')}"
        for name, length in zip(shape.form.lengths, shape.lengths, strict=True)
    )
    batch = f"{shape.rows} rows" + (f" of {names}" if names else "")
    return BatchTooLarge(
        f"out of memory, at a batch of {batch}{_asked(error)}. {_remedy(shape, grad_accum)}"
    )


def _asked(error: BaseException) -> str:
    for pattern in _ASKED:
        if found := pattern.search(str(error)):
            return f", where {' of '.join(reversed(found.groups()))} was asked for"
    return ""


def _remedy(shape: BatchShape, grad_accum: int) -> str:
    if shape.rows == 1:
        return "A smaller --model-size or a lower --max-seconds needs less; give another --run-dir with it"
    half = shape.rows // 2
    return (
        f"--batch-size {half} --grad-accum {2 * grad_accum} trains on as much in about half of the "
        "memory; give another --run-dir with it"
    )
