"""Metrics of a server in Prometheus's text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


class Metrics:
    """Prometheus metrics of one engine and of the interfaces in front of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "clock_attention_requests",
            "Responses by interface and status.",
            ["interface", "status"],
            registry=self.registry,
        )
        self.spoken = Counter("clock_attention_speech_seconds", "Seconds of speech generated.", registry=self.registry)
        self.worked = Counter("clock_attention_work_seconds", "Seconds of work on jobs.", registry=self.registry)
        self.abandoned = Counter(
            "clock_attention_abandoned", "Jobs whose client disconnected before the end.", registry=self.registry
        )
        self.turned_away = Counter(
            "clock_attention_turned_away", "Requests refused because the queue was full.", registry=self.registry
        )
        self.open = Gauge(
            "clock_attention_open_jobs", "Jobs that are queued, in progress or being sent.", registry=self.registry
        )
        self.waited = Histogram(
            "clock_attention_wait_seconds", "Time in the queue.", buckets=SECONDS, registry=self.registry
        )
        self.first_sound = Histogram(
            "clock_attention_first_sound_seconds",
            "Time from a request to its first sentence.",
            buckets=SECONDS,
            registry=self.registry,
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
