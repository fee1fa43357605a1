"""The pipeline, its servicers, and the gauges that show their state."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from prometheus_client import CollectorRegistry, Gauge

from farpoint.v1 import sampling_pb2
from farpoint_server import version
from farpoint_server.app.compute import Compute
from farpoint_server.app.transport import Transport
from farpoint_server.codec.dtypes import POINT_TYPES
from farpoint_server.codec.method import METHODS
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.observability.metrics import GAUGES, MemoryCollector
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.services.admin import AdminServicer
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.open_inference.servicer import OpenInferenceServicer
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.registration import Servicers
from farpoint_server.services.sampling import SamplingServicer
from farpoint_server.transport.health import Health
from farpoint_server.transport.limits import Receiver


def make_services(
    settings: Settings, compute: Compute, transport: Transport, health: Health
) -> Servicers:
    """All servicers."""
    limits = RequestLimits(
        settings.max_message_bytes, settings.max_request_points, settings.max_request_clouds
    )
    model_limits = replace(limits, points=min(limits.points, settings.max_encode_points))
    pipeline = Pipeline(
        *(limits, transport.admission, Receiver(settings.receive_turns), compute.batcher),
        *(compute.engines, transport.threads, transport.shared_memory.regions),
    )
    repository = ModelRepository(compute.models, compute.devices, lambda: health.is_serving)
    info = _info(limits, compute)
    streams = transport.in_flight, transport.outgoing, settings.idle_timeout_s
    return Servicers(
        SamplingServicer(pipeline, compute.models, model_limits, info, *streams),
        OpenInferenceServicer(pipeline, model_limits, repository, *streams),
        AdminServicer(compute.monitor, compute.models, compute.allocator_settings),
        health,
    )


def _info(limits: RequestLimits, compute: Compute) -> sampling_pb2.GetServerInfoResponse:
    return sampling_pb2.GetServerInfoResponse(
        version=version(),
        devices=[
            sampling_pb2.Device(name=str(device), description=devices.describe(device))
            for device in compute.devices
        ],
        methods=METHODS,
        point_types=POINT_TYPES,
        limits=sampling_pb2.Limits(
            message_bytes=limits.message_bytes,
            request_points=limits.points,
            request_clouds=limits.clouds,
        ),
        torch_version=torch.__version__,
    )


def add_gauges(
    registry: CollectorRegistry, compute: Compute, transport: Transport, health: Health
) -> None:
    """Adds the metrics that are read at each scrape: those of GAUGES and of memory."""
    batchers, admission = compute.batchers, transport.admission
    for name, read in (
        ("serving", lambda: health.is_serving),
        ("calls", lambda: transport.in_flight.calls),
        ("points_in_flight", lambda: admission.points),
        ("bytes_in_flight", lambda: admission.bytes),
        ("queue_requests", compute.waiting_requests),
        ("queue_points", lambda: sum(batcher.waiting_points for batcher in batchers)),
        ("shared_memory_bytes", lambda: transport.shared_memory.regions.size),
    ):
        Gauge(f"farpoint_{name}", GAUGES[name], registry=registry).set_function(read)
    queues = Gauge(
        "farpoint_queue_seconds", GAUGES["queue_seconds"], ("device",), registry=registry
    )
    for device, wait_s in _waits(compute).items():
        queues.labels(device).set_function(wait_s)
    memories = [engine.memory for engine in compute.monitor.engines]
    registry.register(MemoryCollector(lambda: [memory.snapshot for memory in memories]))


def _waits(compute: Compute) -> dict[str, Callable[[], float]]:
    """The predicted wait of a new request at each device."""
    batchers: dict[str, list[Batcher]] = {}
    for engine, batcher in zip(compute.engines, compute.batchers, strict=True):
        batchers.setdefault(str(engine.device), []).append(batcher)
    return {device: partial(_least_wait, each) for device, each in batchers.items()}


def _least_wait(batchers: list[Batcher]) -> float:
    return min(batcher.wait_ns for batcher in batchers) / 1e9
