"""The calls of farpoint.v1.SamplingService that use models: convert, delegate, convert."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from farpoint.v1 import sampling_pb2
from farpoint_server.codec import encode as codec
from farpoint_server.models.registry import LoadedModel
from farpoint_server.scheduling.admission import Receiving
from farpoint_server.services.encode_handler import Encoders
from farpoint_server.transport import interceptor as rpc
from farpoint_server.transport.interceptor import Context
from farpoint_server.transport.receive import receive

SERVICE = sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"].full_name


@dataclass(frozen=True)
class ModelServicer:
    """Answers Encode and ListModels, beside the SamplingServicer that answers the rest."""

    encoders: Encoders
    receiving: Receiving

    async def encode(self, _: object, context: Context) -> bytes:
        """Encode."""
        arrived = time.monotonic()
        encoders = self.encoders
        raw = await receive(context, encoders.admission, self.receiving)
        with encoders.admission.hold(0, len(raw)):
            try:
                request = sampling_pb2.EncodeRequest.FromString(raw)
            except DecodeError as error:
                raise rpc.parse_error(raw) from error
            model = encoders.registry.get(request.model)
            plan = codec.read_plan(request, len(raw), model.config, encoders.limits)
            with encoders.admission.hold(plan.points.shape[0], 0):
                return await self._work(model, plan, context.time_remaining(), arrived)

    async def list_models(
        self, _: sampling_pb2.ListModelsRequest, __: Context
    ) -> sampling_pb2.ListModelsResponse:
        """ListModels."""
        return sampling_pb2.ListModelsResponse(models=map(describe, self.encoders.registry.models))

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
        self, model: LoadedModel, plan: codec.Plan, timeout_s: float | None, arrived: float
    ) -> bytes:
        encode = partial(codec.encode, model.name, plan)
        chunks, encoded = await self.encoders.run(model, plan, timeout_s, encode)
        timings = sampling_pb2.Timings(
            queue_ms=encoded.queue_ms,
            compute_ms=encoded.compute_ms,
            server_ms=(time.monotonic() - arrived) * 1e3,
        )
        tail = sampling_pb2.EncodeResponse(timings=timings).SerializeToString()
        return b"".join([*chunks, tail])


def describe(model: LoadedModel) -> sampling_pb2.Model:
    """A model as its message."""
    return sampling_pb2.Model(
        name=model.name,
        rates=model.config.rates,
        feature_channels=model.config.channels,
        attribute_channels=model.config.attributes,
        parameter_count=model.parameters,
    )
