"""Prometheus counters and histograms of calls, requests and batches, and what the gauges say."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram

# From a cloud of a few points on an idle server to a queue of seconds.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
POINTS = tuple(4**k for k in range(5, 14))

# Help of the gauges that the app reads at each scrape, `farpoint_` before their names.
GAUGES: Mapping[str, str] = {
    "serving": "1 if health is SERVING, else 0.",
    "calls": "Calls that are accepted and not answered.",
    "points_in_flight": "Points of these calls.",
    "bytes_in_flight": "Bytes of their messages and answers.",
    "queue_requests": "Requests no engine has begun.",
    "queue_points": "Points of these requests.",
    "shared_memory_bytes": "Bytes that callers share.",
    "queue_seconds": "Time that what waits and runs on a device is predicted to take.",
}


class Instruments:
    """Counters and histograms, registered in a registry of this server's own.

    `rpc` is "package.Service/Method" and `code` the name of a gRPC status. Calls of services that
    the server does not have are not counted, so no caller can make labels up; a
    `model` is one that is loaded.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rpcs = Counter(
            "farpoint_rpcs", "Calls that ended, by status.", ("rpc", "code"), registry=registry
        )
        self.rpc_seconds = Histogram(
            "farpoint_rpc_seconds",
            "Time from the arrival of a call to the end of its answer.",
            ("rpc",),
            buckets=SECONDS,
            registry=registry,
        )
        self.phase_seconds = Histogram(
            "farpoint_phase_seconds",
            "Time of a served call in each phase: queue, compute, and convert for all the rest.",
            ("rpc", "phase"),
            buckets=SECONDS,
            registry=registry,
        )
        self.model_seconds = Histogram(
            "farpoint_model_seconds",
            "Time of a served request to a model in each phase.",
            ("model", "phase"),
            buckets=SECONDS,
            registry=registry,
        )
        self.model_failures = Counter(
            "farpoint_model_failures",
            "Requests to a model that were not served.",
            ("model",),
            registry=registry,
        )
        self.refusals = Counter(
            "farpoint_refusals",
            "Calls that were refused or given up, by reason.",
            ("reason",),
            registry=registry,
        )
        self.device_requests = Counter(
            "farpoint_device_requests",
            "Requests that a device was given.",
            ("device",),
            registry=registry,
        )
        self.device_seconds = Counter(
            "farpoint_device_seconds",
            "Time that batches took on a device; of several at a time, of each.",
            ("device",),
            registry=registry,
        )
        self.batch_requests = Histogram(
            "farpoint_batch_requests",
            "Requests that share a batch.",
            buckets=REQUESTS,
            registry=registry,
        )
        self.batch_points = Histogram(
            "farpoint_batch_points", "Points of a batch.", buckets=POINTS, registry=registry
        )
