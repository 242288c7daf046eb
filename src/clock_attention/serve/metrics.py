"""What a server counts, in Prometheus's text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


class Metrics:
    """Prometheus counters of one engine and of the interfaces in front of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "clock_attention_requests",
            "Answers by interface and status.",
            ["interface", "status"],
            registry=self.registry,
        )
        self.spoken = Counter("clock_attention_speech_seconds", "Seconds of speech made.", registry=self.registry)
        self.worked = Counter("clock_attention_work_seconds", "Seconds that workers spoke.", registry=self.registry)
        self.abandoned = Counter(
            "clock_attention_abandoned", "Jobs whose client left before the end.", registry=self.registry
        )
        self.turned_away = Counter(
            "clock_attention_turned_away", "Requests refused because the queue was full.", registry=self.registry
        )
        self.open = Gauge(
            "clock_attention_open_jobs", "Jobs that wait, are spoken or are being sent.", registry=self.registry
        )
        self.waited = Histogram(
            "clock_attention_wait_seconds", "Time in the queue.", buckets=SECONDS, registry=self.registry
        )
        self.first_sound = Histogram(
            "clock_attention_first_sound_seconds",
            "From a request to its first sentence.",
            buckets=SECONDS,
            registry=self.registry,
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
