"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counts of one server; each has its own, so that several can be in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "livingdb_requests",
            "Requests that were answered.",
            ["operation", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "livingdb_request_seconds",
            "How long requests took.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.refusals = Counter(
            "livingdb_refusals",
            "Requests that were refused at the door, by why.",
            ["code"],
            registry=self.registry,
        )
        self.flight_calls = Counter(
            "livingdb_flight_calls",
            "Calls of Flight SQL that were answered.",
            ["operation", "outcome"],
            registry=self.registry,
        )
        self.flight_seconds = Histogram(
            "livingdb_flight_call_seconds",
            "How long calls of Flight SQL took.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = self._gauge("requests_running", "Requests that are being answered.")
        self.sent_bytes = Counter(
            "livingdb_sent_bytes", "Bytes of answers.", registry=self.registry
        )

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"livingdb_{name}", what, registry=self.registry)

    def watch(self, name: str, what: str, count: Callable[[], float]) -> None:
        """Let a number be asked for whenever somebody looks."""
        self._gauge(name, what).set_function(count)

    def to_text(self) -> bytes:
        """All of them, as Prometheus reads it."""
        return generate_latest(self.registry)
