"""Where validation falls in the one ordered stream of batches."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from shared.errors import ConfigError

# A run that the clock ends can not say before where its last validation comes in the stream. It has
# numbers of its own, which no training batch ever reaches.
LAST_VALIDATION = 1 << 48


class StreamPlace(NamedTuple):
    """What a batch of the stream is.

    kind: "train" or "validation".
    number: which training batch since the start of the run, or which batch of the validation set.
    round: how many validations were complete before this batch.
    """

    kind: str
    number: int
    round: int


@dataclass(frozen=True)
class StreamLayout:
    """Every `validate_every_batches` training batches are followed by the whole validation set.

    With a known end (`total_train_batches`) the last training batch is followed by a validation
    too, also after a shorter stretch. `validate_every_batches=0` leaves only that last one. When
    the clock ends the run, its last validation is made of the batches from LAST_VALIDATION on. All
    answers are in closed form: batch 10 and batch 10,000,000 cost the same.
    """

    validate_every_batches: int
    num_validation_batches: int
    total_train_batches: int | None = None

    def __post_init__(self) -> None:
        for name in ("validate_every_batches", "num_validation_batches", "total_train_batches"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} is {value}; expected an integer from 0 up.")

    @cached_property
    def _stretch(self) -> int:
        """Training batches between two validations; 0 = no validation but the last."""
        return self.validate_every_batches if self.num_validation_batches else 0

    @cached_property
    def _num_whole_rounds(self) -> int | None:
        if self.total_train_batches is None:
            return None
        return self.total_train_batches // self._stretch if self._stretch else 0

    @cached_property
    def num_stream_batches(self) -> int | None:
        """Training and validation batches of the whole run, or None when it has no known end."""
        total, rounds = self.total_train_batches, self._num_whole_rounds
        if total is None or rounds is None:
            return None
        if total > rounds * self._stretch:
            rounds += 1
        return total + rounds * self.num_validation_batches

    def place(self, n: int) -> StreamPlace:
        """What batch `n` of the stream is.

        Raises:
            IndexError: `n` is negative or past the end of the stream.
        """
        if 0 <= n - LAST_VALIDATION < self.num_validation_batches:
            return StreamPlace("validation", n - LAST_VALIDATION, 0)
        end = self.num_stream_batches
        if n < 0 or (end is not None and n >= end) or n >= LAST_VALIDATION:
            raise IndexError(f"The stream has no batch {n}; it has batches 0 to {end} (exclusive).")
        stretch = self._stretch
        if stretch:
            whole, within = divmod(n, stretch + self.num_validation_batches)
        else:
            whole, within = 0, n
        if self.total_train_batches is not None and whole == self._num_whole_rounds:
            stretch = self.total_train_batches - whole * self._stretch
        elif not stretch:
            return StreamPlace("train", n, 0)
        if within < stretch:
            return StreamPlace("train", whole * self._stretch + within, whole)
        return StreamPlace("validation", within - stretch, whole)

    def num_train_batches_before(self, n: int) -> int:
        """How many of the batches 0 … n-1 of the stream are training batches.

        Before the clock's last validation that is as many as the run has, or 0 if nobody knows.
        """
        if n >= LAST_VALIDATION:
            return self.total_train_batches or 0
        total = self.total_train_batches
        if total is not None and n == self.num_stream_batches:
            return total
        place = self.place(n)
        if place.kind == "train":
            return place.number
        if total is not None and place.round == self._num_whole_rounds:
            return total
        return (place.round + 1) * self._stretch

    def index_after(self, num_trained: int, is_validated: bool) -> int:
        """Where the stream goes on after so many training batches.

        Args:
            num_trained: training batches done, maybe in a stream with another end.
            is_validated: whether the validation that may follow them was done too.
        """
        total, end = self.total_train_batches, self.num_stream_batches
        if total is not None and end is not None and num_trained >= total:
            skipped = 0 if is_validated or num_trained > total else self.num_validation_batches
            return end - (skipped if total else 0)
        after = self.stream_index_of_train(num_trained)
        is_due = self._stretch and num_trained and num_trained % self._stretch == 0
        return after - (self.num_validation_batches if is_due and not is_validated else 0)

    def stream_index_of_train(self, train_batch: int) -> int:
        """Where training batch `train_batch` is in the stream.

        Raises:
            IndexError: the run has no such training batch.
        """
        total = self.total_train_batches
        if train_batch < 0 or (total is not None and train_batch >= total):
            raise IndexError(f"There is no training batch {train_batch}; the run has {total}.")
        if not self._stretch:
            return train_batch
        return train_batch + train_batch // self._stretch * self.num_validation_batches
