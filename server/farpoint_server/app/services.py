"""The pipeline, its servicers and their registration, and the gauges that show their state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import grpc
import torch
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry, Gauge

from farpoint.v1 import sampling_pb2
from farpoint_server import version
from farpoint_server.app.owned import forwarding
from farpoint_server.app.transport import Transport
from farpoint_server.codec.dtypes import POINT_TYPES
from farpoint_server.codec.method import SAMPLING_METHODS
from farpoint_server.codec.open_inference import fps
from farpoint_server.codec.tensors import MAX_CLOUDS, RequestLimits
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.config.settings import Settings
from farpoint_server.models.registry import Registry
from farpoint_server.observability.metrics import GAUGES, MemoryCollector
from farpoint_server.services import admin, sampling
from farpoint_server.services.open_inference import repository
from farpoint_server.services.open_inference import servicer as open_inference
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.receiver import Receiver
from farpoint_server.transport.counts import Count
from farpoint_server.transport.grpc import reflection
from farpoint_server.transport.grpc.handlers import Methods, refusals
from farpoint_server.transport.grpc.health import Health
from farpoint_server.transport.grpc.server import GrpcServers
from farpoint_server.transport.http.calls import HandlerRegistry, UnaryCalls

HEALTH: ServiceDescriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]
PUBLIC = (sampling.DESCRIPTOR, repository.DESCRIPTOR)
ADMIN = (admin.DESCRIPTOR,)
SERVICES = (*PUBLIC, *ADMIN, HEALTH)
"""Those whose methods can be called over HTTP, where registered."""
ADMIN_ALONE = " is served only at the addresses of --admin-listen"


def register(
    registries: Sequence[HandlerRegistry], service: ServiceDescriptor, methods: Methods
) -> None:
    """Registers methods of a service, with one handler for all registries."""
    handler = grpc.method_handlers_generic_handler(service.full_name, dict(methods))
    for registry in registries:
        registry.add_generic_rpc_handlers((handler,))


@dataclass(frozen=True)
class Servicers:
    """The handlers of all services."""

    sampling: Methods
    open_inference: Methods
    admin: Methods
    health: Methods

    def add_to(self, servers: GrpcServers, http: UnaryCalls, admin_over_http: bool) -> None:
        """Registers every service; health is at each port, reflection at those of gRPC."""
        public, is_public = (servers.public, http), servers.admin is servers.public
        for service, methods in (
            (sampling.DESCRIPTOR, self.sampling),
            (repository.DESCRIPTOR, self.open_inference),
        ):
            register(public, service, methods)
            servers.acceptors.add(service.full_name, methods)
        register(public, HEALTH, self.health)
        administered: list[HandlerRegistry] = [http] if admin_over_http else []
        administered += [servers.admin] if servers.admin is not None else []
        register(administered, admin.DESCRIPTOR, self.admin)
        if not is_public:  # instead of gRPC's "Method not found!"
            register([servers.public], admin.DESCRIPTOR, refusals(self.admin, ADMIN_ALONE))
        if servers.admin is not None and not is_public:
            register([servers.admin], HEALTH, self.health)
            reflection.add_to(servers.admin, (*ADMIN, HEALTH))
        reflection.add_to(servers.public, (*PUBLIC, *(ADMIN if is_public else ()), HEALTH))


def health_names(settings: Settings) -> list[str]:
    """The names in health: every service and every model."""
    services = (*PUBLIC, *(ADMIN if settings.admin_listen else ()), HEALTH)
    return [*(service.full_name for service in services), *reflection.SERVICES, fps.NAME]


def make_services(
    settings: Settings,
    compute: Compute,
    models: Registry,
    transport: Transport,
    health: Health,
    engine: RemoteCompute | None,
) -> Servicers:
    """All servicers; administration asks the engine's process, if there is one."""
    limits = RequestLimits(settings.max_message_bytes, settings.max_request_points, MAX_CLOUDS)
    model_limits = replace(limits, points=min(limits.points, settings.max_encode_points))
    pipeline = Pipeline(
        limits,
        transport.admission,
        Receiver(settings.receive_turns),
        compute,
        transport.threads,
        transport.shared_memory.regions,
    )
    models_of = ModelRepository(models, lambda: health.is_serving)
    info = cache(partial(_info, limits, compute))
    streams = transport.in_flight, transport.outgoing, settings.idle_timeout_s
    return Servicers(
        sampling.SamplingServicer(pipeline, models, model_limits, info, *streams).methods(),
        open_inference.OpenInferenceServicer(pipeline, model_limits, models_of, *streams).methods(),
        admin.AdminServicer(compute, models).methods() if engine is None else forwarding(engine),
        health.methods(),
    )


def _info(limits: RequestLimits, compute: Compute) -> sampling_pb2.GetServerInfoResponse:
    return sampling_pb2.GetServerInfoResponse(
        version=version(),
        devices=[
            sampling_pb2.Device(name=name, description=description)
            for name, description in compute.describe()
        ],
        methods=SAMPLING_METHODS,
        point_types=POINT_TYPES,
        limits=sampling_pb2.Limits(
            message_bytes=limits.message_bytes,
            request_points=limits.points,
            request_clouds=limits.clouds,
        ),
        torch_version=torch.__version__,
    )


def add_gauges(registry: CollectorRegistry, transport: Transport, health: Health) -> None:
    """Adds the metrics of calls that are read at each scrape."""
    own = transport.counts.own
    for name, read in (
        ("serving", lambda: health.is_serving),
        ("calls", lambda: transport.in_flight.calls),
        ("points_in_flight", lambda: own(Count.POINTS)),
        ("bytes_in_flight", lambda: own(Count.BYTES)),
        ("shared_memory_bytes", lambda: transport.shared_memory.regions.size),
    ):
        _add_gauge(registry, name, read)


def add_compute_gauges(registry: CollectorRegistry, compute: Compute) -> None:
    """Adds the metrics of devices that are read at each scrape."""
    _add_gauge(registry, "queue_requests", compute.waiting_requests)
    _add_gauge(registry, "queue_points", compute.waiting_points)
    queues = Gauge(
        "farpoint_queue_seconds", GAUGES["queue_seconds"], ("device",), registry=registry
    )
    for device in compute.waits_s():
        queues.labels(device).set_function(partial(_wait_s, compute, device))
    registry.register(MemoryCollector(compute.memory))


def _add_gauge(registry: CollectorRegistry, name: str, read: Callable[[], float]) -> None:
    Gauge(f"farpoint_{name}", GAUGES[name], registry=registry).set_function(read)


def _wait_s(compute: Compute, device: str) -> float:
    return compute.waits_s()[device]
