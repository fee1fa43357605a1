"""Makes the servicers, and the handlers that they delegate to, of the server's parts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from farpoint.v1 import sampling_pb2
from farpoint_server import version
from farpoint_server.app.compute import Compute
from farpoint_server.codec.method import METHODS
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import POINT_TYPES
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.scheduling.admission import Admission
from farpoint_server.services.admin import AdminServicer
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.encoding import EncodingServicer
from farpoint_server.services.model_statistics import ModelStatistics
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.open_inference.servicer import OpenInferenceServicer
from farpoint_server.services.program_handler import ProgramHandler
from farpoint_server.services.registration import Servicers
from farpoint_server.services.sample_handler import SampleHandler
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
    statistics = ModelStatistics()
    sampling, encoding, programs = _make_handlers(parts, limits, statistics)
    inference = InferHandler(
        sampling,
        encoding,
        programs,
        ModelRepository(
            compute.models, statistics, compute.devices, lambda: parts.health.is_serving
        ),
    )
    streams = parts.outgoing, settings.idle_timeout_s
    return Servicers(
        SamplingServicer(sampling, parts.in_flight, _info(limits, compute), *streams),
        EncodingServicer(encoding, programs),
        OpenInferenceServicer(inference, parts.in_flight, *streams),
        AdminServicer(compute.monitor, compute.models, compute.allocator_settings),
        parts.health,
    )


def _make_handlers(
    parts: Parts, limits: RequestLimits, statistics: ModelStatistics
) -> tuple[SampleHandler, EncodeHandler, ProgramHandler]:
    settings, compute = parts.settings, parts.compute
    shared = parts.admission, ReceiveTurns(settings.receive_turns), compute.batcher
    model_limits = replace(limits, points=min(limits.points, settings.max_encode_points))
    computing = compute.models, parts.threads, compute.engines, statistics
    of_models = model_limits, *shared, *computing
    return (
        SampleHandler(limits, *shared, compute.engines, parts.threads, parts.regions, statistics),
        EncodeHandler(*of_models),
        ProgramHandler(*of_models),
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
