"""The plan: what is in batch n of the stream, computed from the index and nothing else.

Random numbers here are hashes of (seed, purpose, context, counter), not draws from a generator, which
makes the plan seekable.
"""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shared.errors import ConfigError, DataError
from shared.hashing import hash_counters
from shared.plan.buckets import assign_buckets, choose_buckets, count_batches, limits_of, one_shape
from shared.plan.companions import FILLER, Companions, hashed_start
from shared.plan.exclusions import Exclusions
from shared.plan.index import TRAIN, VALIDATION, Index, numbers_of
from shared.plan.steps_of_epoch import in_steps
from shared.plan.stream_layout import StreamLayout
from shared.task.batch import BatchForm, BatchShape

# Part of the fingerprint: raise it when the same settings give other batches than before.
PLAN_VERSION = 1
# The epoch at hand and the one before or after it, which a full buffer can reach into.
CACHED_EPOCHS = 2

# One number per use, so that two uses with the same seed and context have nothing in common.
# Those from 3 to 6 without the 5 are in `companions`.
_ROW_ORDER, _BATCH_ORDER, _SUBSTITUTE, _DRAW = 1, 2, 5, 7


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Everything a data worker needs to make one batch.

    index: its number in the stream. kind: "train" or "validation".
    epoch: of a training batch, its own; of a validation batch, that of the training before it.
    number: which training batch of the run, or which batch of the validation set.
    shape: rows and lengths of its arrays.
    rows: int64 (rows,), rows of the index; FILLER (-1) has weight zero. All of them are fillers
        when everything that could be here is excluded.
    companions: int64 (rows,), another row of each row's group; FILLER where there is none.
    companion_offsets: float64 (rows,) in [0, 1), each companion's own random number.
    draws: uint64 (rows,), each row's own random number of this epoch; the same in every validation.
    """

    index: int
    kind: str
    epoch: int
    number: int
    shape: BatchShape
    rows: np.ndarray
    companions: np.ndarray
    companion_offsets: np.ndarray
    draws: np.ndarray

    def contains(self, row: int) -> bool:
        """Whether the batch needs the file of `row`, for itself or as a companion."""
        return bool(np.any(self.rows == row) or np.any(self.companions == row))


class Plan:
    """Batch n of the stream as a pure function of (lengths, settings, seed, n, exclusions).

    Safe to use from several threads.
    """

    def __init__(
        self,
        lengths: Mapping[str, np.ndarray],
        group: np.ndarray,
        split: np.ndarray,
        form: BatchForm,
        *,
        batch_size: int,
        seed: int,
        max_buckets: int = 8,
        static_shapes: bool = False,
        batches_per_step: int = 1,
        validate_every_batches: int = 0,
        total_train_batches: int | None = None,
    ):
        """Chooses the bucket shapes and the validation batches; epochs are planned when needed.

        Args:
            lengths: integers ≥ 1, (rows,) each; batches are cut by the first one.
            group: integers, (rows,).
            split: 0 for training, 1 for validation, (rows,).
            batch_size: rows per batch; all training rows when there are fewer.
            max_buckets: at most so many shapes, or one for all batches with `static_shapes`.
            batches_per_step: so many in a row are from one bucket, wherever that can be: whoever
                trains on them at the same time has as much to do as the others.
            validate_every_batches, total_train_batches: see `StreamLayout`.

        Raises:
            ConfigError: a setting is out of range.
            DataError: the arrays do not belong together, or there is no training row.
        """
        for name, value in (
            ("batch_size", batch_size),
            ("max_buckets", max_buckets),
            ("batches_per_step", batches_per_step),
        ):
            if value < 1:
                raise ConfigError(f"{name} is {value}; expected an integer from 1 up.")
        self.seed = seed
        self.form = form
        self._columns = _checked_columns(lengths, group, split, form)
        *columns, group, split = self._columns.values()
        first = columns[0] if columns else np.ones(len(split), np.int64)
        self._train_rows = np.flatnonzero(split == TRAIN)
        self._validation_rows = np.flatnonzero(split == VALIDATION)
        if not len(self._train_rows):
            raise DataError(
                f"None of the {len(split)} usable examples is left for training. "
                "Add some, or hold out a smaller part of them (--val-fraction)."
            )
        rows_per_batch = min(batch_size, len(self._train_rows))
        self.buckets: tuple[BatchShape, ...] = (
            one_shape(columns, rows_per_batch, form)
            if static_shapes or not columns
            else choose_buckets(columns, split == TRAIN, rows_per_batch, max_buckets, form)
        )
        self._settings = {
            "batch_size": int(batch_size),
            "max_buckets": int(max_buckets),
            "static_shapes": bool(static_shapes),
            "seed": int(seed),
        }
        if batches_per_step > 1:  # else the batches are those of before there was such a setting
            self._settings["batches_per_step"] = int(batches_per_step)
        self._batches_per_step = batches_per_step
        self._bucket_of_row = assign_buckets(first, self.buckets)
        self._counts = count_batches(
            np.bincount(self._bucket_of_row[self._train_rows], minlength=len(self.buckets)),
            limits_of(self.buckets),
            rows_per_batch,
        )
        self.batches_per_epoch = int(self._counts.num_batches.sum())

        # Longest first, so that one batch at most has fillers and it is the shortest. A batch
        # across two buckets has the shape of the longer: it fits all of its rows.
        order = np.argsort(-first[self._validation_rows], kind="stable")
        self._validation_batches = _in_batches(self._validation_rows[order], rows_per_batch)
        self.num_validation_batches = len(self._validation_batches)

        self._companions = (
            Companions(seed, group, self._train_rows, self._validation_rows)
            if form.has_companions
            else None
        )
        self._epochs: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._lock = threading.Lock()
        self.layout = StreamLayout(
            validate_every_batches, self.num_validation_batches, total_train_batches
        )

    @classmethod
    def from_index(cls, index: Index, form: BatchForm, **settings: Any) -> "Plan":
        """The plan of an index whose task makes batches of this form."""
        lengths = {name: numbers_of(index, name) for name in form.lengths}
        return cls(lengths, numbers_of(index, form.group_column), index.split, form, **settings)

    def with_layout(
        self, validate_every_batches: int, total_train_batches: int | None = None
    ) -> "Plan":
        """The same batches in a stream with other validations or another end.

        A budget in epochs is known in batches only once there is a plan: make it without an end,
        then ask for `total_train_batches=epochs * plan.batches_per_epoch`.
        """
        plan = copy.copy(self)
        plan._epochs, plan._lock = OrderedDict(), threading.Lock()
        plan.layout = StreamLayout(
            validate_every_batches, self.num_validation_batches, total_train_batches
        )
        return plan

    def batch(self, n: int, exclusions: Exclusions = Exclusions()) -> BatchPlan:
        """What is in batch `n` of the stream.

        Raises:
            IndexError: `n` is negative or past the end of the stream.
        """
        place = self.layout.place(n)
        if place.kind == "train":
            epoch, within = divmod(place.number, self.batches_per_epoch)
            batches, bucket_of_batch = self._epoch(epoch)
            planned, bucket = batches[within], int(bucket_of_batch[within])
            hashed_epoch = epoch + 1
        else:
            planned = self._validation_batches[place.number]
            bucket = int(self._bucket_of_row[planned[0]])
            num_trained = self.layout.num_train_batches_before(n)
            epoch = max(num_trained - 1, 0) // self.batches_per_epoch
            hashed_epoch = 0  # the same in every validation, or their losses don't compare

        rows = planned.copy()
        if exclusions.version:
            for slot, row in enumerate(planned.tolist()):
                if row != FILLER and exclusions.excludes(row, n):
                    rows[slot] = self._substitute(n, slot, planned, exclusions)
        companions, offsets = np.full_like(rows, FILLER), np.zeros(len(rows))
        if self._companions is not None:
            companions, offsets = self._companions.of(n, rows, hashed_epoch, exclusions)
        return BatchPlan(
            index=n,
            kind=place.kind,
            epoch=epoch,
            number=place.number,
            shape=self.buckets[bucket],
            rows=rows,
            companions=companions,
            companion_offsets=offsets,
            draws=hash_counters(self.seed, _DRAW, hashed_epoch, np.maximum(rows, 0)),
        )

    def shape(self, n: int) -> BatchShape:
        """The shape of batch `n` alone, for a fraction of the cost; exclusions do not change it.

        Raises:
            IndexError: `n` is negative or past the end of the stream.
        """
        place = self.layout.place(n)
        if place.kind == "train":
            epoch, within = divmod(place.number, self.batches_per_epoch)
            return self.buckets[int(self._epoch(epoch)[1][within])]
        return self.buckets[int(self._bucket_of_row[self._validation_batches[place.number][0]])]

    def contains(self, n: int, row: int, exclusions: Exclusions = Exclusions()) -> bool:
        """Whether batch `n` needs the file of `row`, for itself or as a companion."""
        return self.batch(n, exclusions).contains(row)

    def nbytes(self, batch: int | BatchShape) -> int:
        """Exact bytes of the arrays of a batch, given by its number in the stream or its shape."""
        return (batch if isinstance(batch, BatchShape) else self.shape(batch)).nbytes

    def fingerprint(self) -> str:
        """SHA-256, in hex, of all that decides what is in a batch, but for the exclusions."""
        digest = hashlib.sha256()
        settings = {
            **self._settings,
            "plan_version": PLAN_VERSION,
            "validate_every_batches": self.layout.validate_every_batches,
            "total_train_batches": self.layout.total_train_batches,
        }
        if not self.form.has_companions:
            settings["companions"] = False
        digest.update(json.dumps(settings, sort_keys=True).encode())
        for name, column in self._columns.items():
            digest.update(f"{name}:{len(column)}:".encode())
            digest.update(column.astype("<i8").tobytes())
        return digest.hexdigest()

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (batches, rows) and bucket (batches,) of each training batch of an epoch."""
        with self._lock:
            if epoch not in self._epochs:
                self._epochs[epoch] = self._plan_epoch(epoch)
                while len(self._epochs) > CACHED_EPOCHS:
                    self._epochs.popitem(last=False)
            self._epochs.move_to_end(epoch)
            return self._epochs[epoch]

    def _plan_epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        keys = hash_counters(self.seed, _ROW_ORDER, epoch, self._train_rows)
        shuffled = self._train_rows[np.argsort(keys)]
        # Shuffled within each bucket. Each bucket's surplus is at its end, which is where the next
        # bucket begins: to carry it over is to cut a little earlier.
        shuffled = shuffled[np.argsort(self._bucket_of_row[shuffled], kind="stable")]
        cuts = np.cumsum(self._counts.num_rows)[:-1]
        batches = np.concatenate(
            [
                _dealt(rows, int(num_batches), self.buckets[0].rows)
                for rows, num_batches in zip(
                    np.split(shuffled, cuts), self._counts.num_batches, strict=True
                )
            ]
        )
        buckets = np.repeat(np.arange(len(self.buckets)), self._counts.num_batches)
        batch_keys = hash_counters(self.seed, _BATCH_ORDER, epoch, np.arange(len(batches)))
        order = np.argsort(batch_keys)
        if self._batches_per_step > 1:
            begun = epoch * len(batches) % self._batches_per_step
            order = in_steps(order, buckets, begun, self._batches_per_step)
        return batches[order], buckets[order]

    def _substitute(self, n: int, slot: int, planned: np.ndarray, exclusions: Exclusions) -> int:
        """Another training row for an excluded one; a held-out row has none.

        It comes from the excluded row's own bucket, so it fits. A second copy of a held-out row
        would only weigh the validation wrongly.
        """
        row = int(planned[slot])
        if self._columns["split"][row] == VALIDATION:
            return FILLER
        same_bucket = self._train_rows[
            self._bucket_of_row[self._train_rows] == self._bucket_of_row[row]
        ]
        start = hashed_start(self.seed, _SUBSTITUTE, n, slot)
        other = exclusions.first_usable(same_bucket, start, n, taken=set(planned.tolist()))
        return FILLER if other is None else other


_LOOK_AGAIN = (
    "Remove the run's index.safetensors and start the run once more: the data is then looked at "
    "again."
)


def _checked_columns(
    lengths: Mapping[str, np.ndarray], group: np.ndarray, split: np.ndarray, form: BatchForm
) -> dict[str, np.ndarray]:
    """The columns that decide the plan: the lengths in the form's order, group and split."""
    columns = {name: np.asarray(lengths[name]) for name in form.lengths}
    columns |= {form.group_column: np.asarray(group), "split": np.asarray(split)}
    shapes = {name: column.shape for name, column in columns.items()}
    if any(column.ndim != 1 or len(column) != len(columns["split"]) for column in columns.values()):
        raise DataError(
            f"The index is damaged: its columns have the shapes {shapes}, which should be equal. "
            f"{_LOOK_AGAIN}"
        )
    least = {**dict.fromkeys(form.lengths, 1), "split": TRAIN}
    for name, minimum in least.items():
        wrong = columns[name] < minimum
        if name == "split":
            wrong |= columns[name] > VALIDATION
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"The index is damaged: row {row} has {name} = {columns[name][row]}. {_LOOK_AGAIN}"
            )
    return columns


def _in_batches(rows: np.ndarray, rows_per_batch: int) -> np.ndarray:
    """Consecutive rows in batches, int64 (batches, rows_per_batch), fillers at the very end."""
    num_batches = -(-len(rows) // rows_per_batch)
    batches = np.full(num_batches * rows_per_batch, FILLER, dtype=np.int64)
    batches[: len(rows)] = rows
    return batches.reshape(num_batches, rows_per_batch)


def _dealt(rows: np.ndarray, num_batches: int, rows_per_batch: int) -> np.ndarray:
    """Rows dealt out like cards, int64 (num_batches, rows_per_batch).

    Fillers spread over all batches this way (a batch with one real row would be a noisy step), and
    so do the rows carried over from a shorter bucket, which come first.
    """
    dealt = np.full(num_batches * rows_per_batch, FILLER, dtype=np.int64)
    dealt[: len(rows)] = rows
    return np.ascontiguousarray(dealt.reshape(rows_per_batch, num_batches).T)
