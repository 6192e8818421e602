"""The learning rate over a run: a warm-up, then a cosine down to nothing, fitted to the budget."""

from __future__ import annotations

import math

_WARMUP_SHARE = 0.04
_LONGEST_WARMUP = 1000
_FIT_UNTIL_SHARE = 0.8  # past this the curve is kept, or noise in the clock would bend its end
_FIRST_GUESS = 2000
# Averaged weights look back over this share of the run, but never over more steps than that.
_AVERAGED_SHARE = 0.07
_MOST_AVERAGED = 2000


class Schedule:
    """Learning rate by step. With a budget in minutes its length is fitted while training."""

    def __init__(
        self,
        peak: float,
        total_steps: int | None,
        warmup_steps: int = 0,
        most_steps: int | None = None,
    ):
        """`most_steps`: a budget in minutes is fitted to no more, however many it has time for."""
        self._peak = peak
        self._most_steps = most_steps
        self._fixed = total_steps is not None
        self.total_steps = total_steps or _FIRST_GUESS
        self._warmup_steps = warmup_steps

    def fit(self, step: int, elapsed_s: float, remaining_s: float, step_s: float) -> None:
        """Adjust the length to the time that is left; nothing happens when it is given."""
        used = elapsed_s / max(1e-9, elapsed_s + remaining_s)
        if not self._fixed and used < _FIT_UNTIL_SHARE and step_s > 0:
            fitting = max(step + 1, step + int(remaining_s / step_s))
            self.total_steps = min(fitting, self._most_steps or fitting)

    @property
    def leaves_time(self) -> bool:
        """Whether the run ends before its minutes do, as its data is learned by then."""
        return not self._fixed and self.total_steps == self._most_steps

    def restore(self, total_steps: int) -> None:
        """Continue the curve of a checkpoint."""
        if not self._fixed:
            self.total_steps = total_steps

    def rate(self, step: int) -> float:
        """The rate of optimizer step `step`, counted from 0."""
        warmup = self._warmup_steps or min(
            _LONGEST_WARMUP, max(1, int(self.total_steps * _WARMUP_SHARE))
        )
        if step < warmup:
            return self._peak * (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, self.total_steps - warmup))
        return self._peak * max(0.01, 0.5 * (1 + math.cos(math.pi * progress)))

    def ema_decay(self) -> float:
        """Decay of the averaged weights, for a run of this length."""
        averaged = min(_MOST_AVERAGED, max(2.0, _AVERAGED_SHARE * self.total_steps))
        return 1.0 - 1.0 / averaged
