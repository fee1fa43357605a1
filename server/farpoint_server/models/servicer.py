"""The calls of farpoint.v1.SamplingService that use models: convert, delegate, convert."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError

from farpoint.v1 import sampling_pb2
from farpoint_server import rpc
from farpoint_server.admission import Admission, Receiving
from farpoint_server.codec import encode as codec
from farpoint_server.codec.sample_plan import Limits
from farpoint_server.models.registry import Model, Registry
from farpoint_server.models.runner import Runner
from farpoint_server.receiving import receive
from farpoint_server.rpc import Context

SERVICE = sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"].full_name


@dataclass(frozen=True)
class ModelServicer:
    """Answers Encode and ListModels, beside the SamplingServicer that answers the rest."""

    registry: Registry
    runner: Runner
    limits: Limits
    admission: Admission
    receiving: Receiving
    threads: ThreadPoolExecutor

    async def encode(self, _: object, context: Context) -> bytes:
        """Encode."""
        arrived = time.monotonic()
        raw = await receive(context, self.admission, self.receiving)
        with self.admission.hold(0, len(raw)):
            try:
                request = sampling_pb2.EncodeRequest.FromString(raw)
            except DecodeError as error:
                raise rpc.parse_error(raw) from error
            model = self.registry.get(request.model)
            plan = codec.read_plan(request, len(raw), model.config, self.limits)
            with self.admission.hold(plan.points.shape[0], 0):
                return await self._work(model, plan, context.time_remaining(), arrived)

    async def list_models(
        self, _: sampling_pb2.ListModelsRequest, __: Context
    ) -> sampling_pb2.ListModelsResponse:
        """ListModels."""
        return sampling_pb2.ListModelsResponse(models=map(describe, self.registry.models))

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the servicer; the message of Encode is received when there is room for it."""
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Encode": grpc.stream_unary_rpc_method_handler(self.encode),
            "ListModels": grpc.unary_unary_rpc_method_handler(
                self.list_models,
                sampling_pb2.ListModelsRequest.FromString,
                sampling_pb2.ListModelsResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

    async def _work(
        self, model: Model, plan: codec.Plan, timeout_s: float | None, arrived: float
    ) -> bytes:
        loop = asyncio.get_running_loop()
        clouds = await loop.run_in_executor(self.threads, codec.decode, plan)
        encoded = await self.runner.run(model, clouds, timeout_s)
        chunks = await loop.run_in_executor(
            self.threads, codec.encode, model.name, plan, encoded.stages
        )
        structlog.contextvars.bind_contextvars(
            points=plan.points.shape[0],
            clouds=len(plan.lengths),
            model=model.name,
            queue_ms=round(encoded.queue_ms, 3),
            compute_ms=round(encoded.compute_ms, 3),
        )
        timings = sampling_pb2.Timings(
            queue_ms=encoded.queue_ms,
            compute_ms=encoded.compute_ms,
            server_ms=(time.monotonic() - arrived) * 1e3,
        )
        tail = sampling_pb2.EncodeResponse(timings=timings).SerializeToString()
        return b"".join([*chunks, tail])


def describe(model: Model) -> sampling_pb2.Model:
    """A model as its message."""
    return sampling_pb2.Model(
        name=model.name,
        rates=model.config.rates,
        feature_channels=model.config.channels,
        attribute_channels=model.config.attributes,
        parameter_count=model.parameters,
    )
