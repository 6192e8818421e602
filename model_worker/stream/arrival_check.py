"""How a batch is checked on arrival: it has exactly the arrays that the plan says.

That comes third of four. The codec has checked its bytes against its header, and the receiver that
its sender was let in and that its memory is mapped here. Then the ledger says whether it was asked
for, of this sender, and made with the exclusions that count.
"""

from __future__ import annotations

import functools

import numpy as np

from shared.plan.plan import Plan
from shared.stream.messages import BatchReady
from shared.task import BatchShape


def wrong_arrays(message: BatchReady, plan: Plan) -> str | None:
    """What is wrong with the arrays of a batch; None where they are as planned."""
    found = {name: (a.dtype, a.shape) for name, a in message.arrays.items()}
    if found == _planned(plan.shape(message.batch)):
        return None
    return f"batch {message.batch} does not have the arrays that the plan says."


@functools.cache
def _planned(shape: BatchShape) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Name, dtype and shape of each array of a batch."""
    return {name: (np.dtype(dtype), size) for name, (dtype, size) in shape.arrays().items()}
