"""What the measurements of `bench` say about the flags to use: a pure table."""

from __future__ import annotations

import math

# Less than this is within what two measurements of the same thing differ by.
_NOTICEABLE = 1.05
_IMPOSSIBLE = 1.1


def limit_of(parts: dict[str, dict]) -> float:
    """The most that a placement can do: its slower side, in amounts per second."""
    return min(parts["data"]["amount_per_s"], parts["model"]["amount_per_s"])


def advise(found: dict) -> dict:
    """Flags for this machine and data, and why: {"flags": [...], "why": [...]}."""
    modes = {mode["mode"]: mode for mode in found["modes"]}
    single, multi = modes["single-GPU buffered"], modes.get("multi-GPU")
    chosen, flags, why = single, [], []
    if multi is None:
        why.append(f"Multi-GPU mode was not measured: {found['no_multi_gpu']}.")
    else:
        gain = multi["amount_per_s"] / max(1e-9, single["amount_per_s"])
        if gain >= _NOTICEABLE:
            chosen, flags = multi, list(multi["flags"])
            why.append(
                f"Multi-GPU mode trains {100 * (gain - 1):.0f} % faster than single-GPU mode."
            )
        else:
            why.append("A second GPU for the data gains nothing here; use it for something else.")
    parts = found["limits"][chosen["limit"]]
    more_flags, more_why = _of_the_slower_side(parts, found)
    why += more_why
    needed = batches_to_cover(parts)
    if needed > found["buffer_size"]:
        more_flags += ["--buffer-size", str(needed)]
        why.append(
            f"The data side once paused for {parts['data']['longest_gap_s']:.1f} s, which "
            f"takes {needed} batches to bridge."
        )
    if max(mode["share_of_limit"] for mode in found["modes"]) > _IMPOSSIBLE:
        why.append(
            "A mode was faster than its limit, so something else was using this machine: "
            "measure again when it is quiet."
        )
    if found["fake_gpus"]:
        why.append("Fake GPUs are shares of this CPU: measure again where the real ones are.")
    return {"flags": flags + more_flags, "why": why}


def batches_to_cover(parts: dict[str, dict]) -> int:
    """Batches that the model trains during the data side's longest pause, and two on the device."""
    return math.ceil(parts["data"]["longest_gap_s"] * parts["model"]["batches_per_s"]) + 2


def _of_the_slower_side(parts: dict[str, dict], found: dict) -> tuple[list[str], list[str]]:
    data, model = (parts[side]["amount_per_s"] for side in ("data", "model"))
    if data >= model * _NOTICEABLE:
        return [], [f"The model is the limit: the data side could feed {data / model:.1f} × it."]
    if model < data * _NOTICEABLE:
        return [], ["Both sides are equally fast."]
    times = f"{model / data:.1f} ×"
    why = [f"Making batches is the limit in the first epoch: the model could take {times} as much."]
    needed_mb = found["epoch_megabytes"]
    if needed_mb <= found["cache_megabytes"]:
        why.append(
            f"From the second epoch on the features come out of memory: all of them take "
            f"at most {needed_mb:,} MB, and --cache-megabytes allows {found['cache_megabytes']:,}."
        )
        return [], why
    if needed_mb <= found["memory_megabytes"] / 2:
        why.append(
            f"All features take up to {needed_mb:,} MB, more than --cache-megabytes allows, and "
            f"there is memory for them: {found['memory_megabytes']:,} MB."
        )
        return ["--cache-megabytes", str(needed_mb)], why
    why.append(
        f"All features take up to {needed_mb:,} MB, too much for memory; a disk can hold them."
    )
    return ["--cache", "disk", "--cache-megabytes", str(needed_mb)], why
