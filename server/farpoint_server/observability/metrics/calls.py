"""Prometheus metrics of each call, and of each request in it, when it has ended."""

import re
from functools import cache

from farpoint_server.errors import ServiceError
from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.request_context import Fields

PHASES = ("queue", "compute", "convert")


class CallMetrics:
    """The `RequestMetrics` of the interceptor that feed the instruments."""

    def __init__(self, instruments: Instruments) -> None:
        # The labels are of a few methods, statuses and errors; looking one up locks all of them.
        self._rpcs = cache(instruments.rpcs.labels)
        self._rpc_seconds = cache(instruments.rpc_seconds.labels)
        self._phase_seconds = cache(
            lambda rpc: [instruments.phase_seconds.labels(rpc, phase) for phase in PHASES]
        )
        self._refusals = cache(instruments.refusals.labels)
        self._model_seconds = cache(
            lambda model: [instruments.model_seconds.labels(model, phase) for phase in PHASES]
        )
        self._model_failures = cache(instruments.model_failures.labels)

    def end_call(self, rpc: str, code: str, seconds: float) -> None:
        """Counts a call, from its arrival to the end of its answer."""
        if code == "CANCELLED":
            self._refusals("cancelled").inc()
        self._rpcs(rpc, code).inc()
        self._rpc_seconds(rpc).observe(seconds)

    def end_request(
        self, rpc: str, seconds: float, error: Exception | None, fields: Fields
    ) -> None:
        """Counts a request; a call has one, or with SampleStream many."""
        if error is not None:
            self._refusals(reason_of(error)).inc()
            if "model" in fields:
                self._model_failures(fields["model"]).inc()
        elif "compute_ms" in fields:
            self._count_phases(rpc, seconds, fields)

    def count_refusal(self, reason: str) -> None:
        """Counts what is refused or given up outside of a request."""
        self._refusals(reason).inc()

    def _count_phases(self, rpc: str, seconds: float, fields: Fields) -> None:
        """The phases are those of the log line, so that the two cannot differ."""
        queued, computed = fields["queue_ms"] / 1e3, fields["compute_ms"] / 1e3
        phases = [self._phase_seconds(rpc)]
        if "model" in fields:
            phases.append(self._model_seconds(fields["model"]))
        for queue, compute, convert in phases:
            queue.observe(queued)
            compute.observe(computed)
            convert.observe(max(seconds - queued - computed, 0))


def reason_of(error: Exception) -> str:
    """OverloadedError is "overloaded", EngineHungError "engine_hung"; a bug is "internal"."""
    if not isinstance(error, ServiceError):
        return "internal"
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
