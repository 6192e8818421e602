"""Who is let in: what a data process must show, and what it is told when it does not."""

from __future__ import annotations

import dataclasses

from shared.run.task_identity import difference
from shared.stream.messages import Hello

_MAX_NAME = 128
_DEVICES = {"cpu": "the CPU", "gpu": "a GPU", "fake": "a fake GPU"}


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a data process must show to be let in."""

    run: str
    index_fingerprint: str
    plan_fingerprint: str
    device_kind: str
    num_rows: int
    tensorflow: str | None = None  # its version; None: any
    recipe: dict[str, str] | None = None  # of the features; None: any
    num_workers: int = 1  # that the run starts; others may be started by hand

    def mismatch(self, run: str, hello: Hello) -> str | None:
        """Why a data process that shows this for that run is not let in, or None when it is."""
        if not 0 < len(hello.worker) <= _MAX_NAME or not hello.worker.isprintable():
            return f"its name is not one of 1 to {_MAX_NAME} printable characters."
        if run != self.run:
            return "this model process serves another run. Give both workers the same --run."
        if hello.index_fingerprint != self.index_fingerprint:
            return "the index differs from the model process's. Copy the run directory again."
        if hello.plan_fingerprint != self.plan_fingerprint:
            return "the settings differ from the model process's. Copy the run's config.toml again."
        if hello.device_kind != self.device_kind:
            return _other_device(hello.device_kind[:20], self.device_kind)
        if self.tensorflow not in (None, hello.tensorflow):
            return (
                f"it has TensorFlow {hello.tensorflow[:20]} where the model process has "
                f"{self.tensorflow}, which may make other batches. Install the same one."
            )
        if self.recipe is not None and (differs := difference(self.recipe, hello.recipe)):
            return (
                f"it would make other batches than this run ({differs}). Make that the same, or "
                "start the run again with --accept-edited-task to go on with other batches."
            )
        return None


def _other_device(found: str, expected: str) -> str:
    """Why a data process that computes on another kind of device is refused, and the remedy."""
    if expected == "cpu":
        remedy = "Start it without --gpu, with this run's config.toml."
    elif "fake" in (found, expected):
        remedy = "Copy the run's config.toml again."
    else:
        remedy = "Start it with --gpu N."
    return (
        f"it computes on {_DEVICES.get(found, found)}, but this run's data processes on "
        f"{_DEVICES.get(expected, expected)}, which would make other batches. {remedy}"
    )
