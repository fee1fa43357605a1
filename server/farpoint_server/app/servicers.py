"""Makes the servicers, and the handlers that they delegate to, of the server's parts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from farpoint.v1 import sampling_pb2
from farpoint_server import version
from farpoint_server.app.compute import Compute
from farpoint_server.codec.dtypes import POINT_TYPES
from farpoint_server.codec.method import METHODS
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.scheduling.admission import Admission
from farpoint_server.services.admin import AdminServicer
from farpoint_server.services.model_statistics import ModelStatistics
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.open_inference.servicer import OpenInferenceServicer
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.registration import Servicers
from farpoint_server.services.sampling import SamplingServicer
from farpoint_server.transport.health import Health
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing
from farpoint_server.transport.receive import ReceiveTurns


@dataclass(frozen=True)
class Parts:
    """What the handlers of a server share."""

    settings: Settings
    compute: Compute
    admission: Admission
    in_flight: InFlight
    outgoing: Outgoing
    threads: ThreadPoolExecutor
    """Where large messages are decoded and serialized."""
    regions: Regions
    health: Health


def make_servicers(parts: Parts) -> Servicers:
    """All of them, to be registered."""
    settings, compute = parts.settings, parts.compute
    limits = RequestLimits(
        settings.max_message_bytes, settings.max_request_points, settings.max_request_clouds
    )
    model_limits = replace(limits, points=min(limits.points, settings.max_encode_points))
    statistics = ModelStatistics()
    pipeline = Pipeline(
        *(limits, parts.admission, ReceiveTurns(settings.receive_turns), compute.batcher),
        *(compute.engines, parts.threads, parts.regions, statistics),
    )
    repository = ModelRepository(
        compute.models, statistics, compute.devices, lambda: parts.health.is_serving
    )
    streams = parts.outgoing, settings.idle_timeout_s
    info = _info(limits, compute)
    return Servicers(
        SamplingServicer(pipeline, compute.models, model_limits, parts.in_flight, info, *streams),
        OpenInferenceServicer(
            InferHandler(pipeline, model_limits, repository), parts.in_flight, *streams
        ),
        AdminServicer(compute.monitor, compute.models, compute.allocator_settings),
        parts.health,
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
