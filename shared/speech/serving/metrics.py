"""What a server says of itself to Prometheus."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_LATENCIES_S = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
_FACTORS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)


class ServingMetrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "tandem_requests", "Requests for speech, by the status of the answer.", ["status"],
            registry=registry,
        )  # fmt: skip
        self.under_way = Gauge(
            "tandem_requests_under_way", "Requests for speech that are spoken or wait.",
            registry=registry,
        )  # fmt: skip
        self.first_sound = Histogram(
            "tandem_first_sound_seconds", "From a request to the first sound that is sent.",
            buckets=_LATENCIES_S, registry=registry,
        )  # fmt: skip
        self._speech = Counter("tandem_speech_seconds", "Speech that was made.", registry=registry)
        self._factor = Histogram(
            "tandem_real_time_factor", "Time to make a piece of speech, over its length.",
            buckets=_FACTORS, registry=registry,
        )  # fmt: skip

    def spoken(self, speech_s: float, took_s: float) -> None:
        """A piece was made."""
        self._speech.inc(speech_s)
        if speech_s > 0:
            self._factor.observe(took_s / speech_s)

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
