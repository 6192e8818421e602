"""What a run should use for this data set on this machine: batch size, buffer, buckets."""

from __future__ import annotations

import numpy as np

from data_worker.speech.data_check.examined import ExaminedSpeech
from shared.config.settings import DataConfig
from shared.devices.gpus import Gpu
from shared.plan.buckets import assign_buckets, choose_buckets, count_batches, limits_of, one_shape
from shared.plan.index import TRAIN
from shared.speech.batch import FORM
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.task import BatchShape

# Batch and buffer size by the GPU's memory: from (MB) on, these. Experience with clips of up to
# ten seconds; longer ones take more memory, so they get smaller batches.
_BY_MEMORY = ((22_000, 48, 100), (11_000, 32, 50), (0, 16, 25))
_USUAL_FRAMES = round(10 * SAMPLE_RATE / HOP)
_MULTIPLE = 4
_GOOD_HOURS = 0.5
_MUCH_PADDING = 0.1


def suggest(examined: ExaminedSpeech, split: np.ndarray, data: DataConfig, gpus: list[Gpu]) -> dict:
    """Sizes with their reason, and the shapes that batches would have."""
    num_frames = np.array([found.num_frames for found in examined.usable])
    # Silence is added to both ends of a text.
    num_symbols = np.array([len(found.symbols) + 2 for found in examined.usable])
    wanted = data.model_gpus[0] if data.model_gpus else 0
    gpu = next((gpu for gpu in gpus if gpu.index == wanted and gpu.memory_mb), None)
    batch_size = data.batch_size or DataConfig().batch_size
    buffer_size = data.pipeline_buffer_size
    why = (
        "as configured: no NVIDIA GPU was found here. To train without one, use --config "
        "configs/laptop.toml"
    )
    if gpu is not None:
        batch_size, buffer_size, why = _by_memory(gpu, int(num_frames.max()))
    is_training = split == TRAIN

    def epoch(batch_size: int) -> dict:
        if data.enable_static_shapes:
            shapes = one_shape((num_frames, num_symbols), batch_size, FORM)
        else:
            shapes = choose_buckets(
                (num_frames, num_symbols), is_training, batch_size, data.max_buckets, FORM
            )
        return _epoch(shapes, num_frames[is_training], batch_size)

    chosen = epoch(batch_size)
    half = epoch(batch_size // 2) if batch_size > 1 else chosen
    hours = float(num_frames[is_training].sum()) * HOP / SAMPLE_RATE / 3600
    return {
        "batch_size": batch_size,
        "buffer_size": buffer_size,
        "gpu": gpu.name if gpu else None,
        "gpu_memory_mb": gpu.memory_mb if gpu else None,
        "why": why,
        "remarks": [*_too_little(hours), *_padding(batch_size, chosen, half)],
        **chosen,
    }


def _too_little(hours: float) -> list[str]:
    if hours >= _GOOD_HOURS:
        return []
    return [
        f"{60 * hours:.0f} minutes to train on are enough to try it out. For a good voice, record an "
        "hour of one speaker, or start from a voice that is trained already (--init-from)."
    ]


def _padding(batch_size: int, chosen: dict, half: dict) -> list[str]:
    """Whether smaller batches would waste clearly less."""
    now, then = chosen["padding_fraction"], half["padding_fraction"]
    if now < _MUCH_PADDING or then > now / 2:
        return []
    return [
        f"{now:.0%} of the frames are padding, because there are few clips of each length; with "
        f"--batch-size {batch_size // 2} it would be {then:.0%}."
    ]


def _by_memory(gpu: Gpu, longest_frames: int) -> tuple[int, int, str]:
    batch, buffer = next((b, q) for least, b, q in _BY_MEMORY if gpu.memory_mb >= least)
    why = f"{gpu.name} has {gpu.memory_mb / 1024:.0f} GB"
    if longest_frames > _USUAL_FRAMES:
        fewer = int(batch * _USUAL_FRAMES / longest_frames) // _MULTIPLE * _MULTIPLE
        batch = max(_MULTIPLE, fewer)
        why += f", and the longest clip {longest_frames * HOP / SAMPLE_RATE:.0f} s"
    return batch, buffer, why


def _epoch(shapes: tuple[BatchShape, ...], num_frames: np.ndarray, batch_size: int) -> dict:
    """How an epoch of the training rows fills batches of these shapes."""
    frames = limits_of(shapes)
    own = np.bincount(assign_buckets(num_frames, shapes), minlength=len(shapes))
    counts = count_batches(own, frames, batch_size)
    all_frames = int((counts.num_batches * frames).sum()) * batch_size
    return {
        "batches_per_epoch": int(counts.num_batches.sum()),
        "padding_fraction": round(1 - int(num_frames.sum()) / max(1, all_frames), 4),
        "buckets": [
            {
                "frames": shape["num_frames"],
                "symbols": shape["num_symbols"],
                "up_to_seconds": round(shape["num_frames"] * HOP / SAMPLE_RATE, 2),
                "utterances": int(rows),
                "batches": int(batches),
            }
            for shape, rows, batches in zip(
                shapes, counts.num_rows, counts.num_batches, strict=True
            )
        ],
    }
