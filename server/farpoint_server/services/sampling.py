"""gRPC servicer of farpoint.v1.SamplingService."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import grpc

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec.encode import (
    decode_encode_request,
    parse_encode_request,
    serialize_encode_response,
)
from farpoint_server.codec.open_inference.exported import describe_tensor
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.codec.wire import read_message
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.kinds.model import LoadedModel, ModelWork
from farpoint_server.models.registry import Registry
from farpoint_server.services import upload
from farpoint_server.services.call import model_call
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.stream import SampleStream
from farpoint_server.transport.grpc.handlers import Context, Methods, unary_methods
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.outgoing import Outgoing

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["SamplingService"]


@dataclass(frozen=True)
class SamplingServicer:
    """Parses requests for the pipeline, and answers GetServerInfo.

    Not a generated servicer, whose messages are parsed before it sees them: messages are read
    from the context as bytes (see codec/wire.py), and only when there is headroom for them.
    """

    pipeline: Pipeline
    registry: Registry
    model_limits: RequestLimits
    info: Callable[[], pb.GetServerInfoResponse]
    in_flight: InFlight
    outgoing: Outgoing
    idle_s: float

    async def encode(self, _: object, context: Context) -> bytes:
        """Encode."""
        arrived, limits = time.monotonic(), self.model_limits
        raw = await self.pipeline.receive(context)
        message = read_message(raw, pb.EncodeRequest, limits_of(pb.EncodeRequest, limits.clouds))
        model = self.registry.encoder(message.model)
        assert model.config is not None
        request = parse_encode_request(message, len(raw), model.config, limits)
        call = model_call(
            model.name,
            request.lengths,
            len(raw),
            lambda: ModelWork(model, decode_encode_request(request)),
            partial(serialize_encode_response, model.name, request, arrived),
        )
        return await self.pipeline.run(call, context.time_remaining())

    async def sample_stream(self, _: object, context: Context) -> None:
        """SampleStream."""
        stream = SampleStream(context, self.pipeline, self.outgoing, self.idle_s)
        await stream.run(self.in_flight.draining)

    async def sample_large(self, _: object, context: Context) -> bytes:
        """SampleLarge."""
        return await upload.handle(self.pipeline, context)

    def methods(self) -> Methods:
        """Handlers of all methods; a unary message is a stream of one message."""
        return {
            "Sample": grpc.stream_unary_rpc_method_handler(self.pipeline.sample),
            "SampleLarge": grpc.stream_unary_rpc_method_handler(self.sample_large),
            "SampleStream": grpc.stream_stream_rpc_method_handler(self.sample_stream),
            "Encode": grpc.stream_unary_rpc_method_handler(self.encode),
            **unary_methods(
                DESCRIPTOR,
                {"GetServerInfo": lambda _: self.info(), "ListModels": self._list_models},
            ),
        }

    def _list_models(self, _: pb.ListModelsRequest) -> pb.ListModelsResponse:
        return pb.ListModelsResponse(models=map(describe_model, self.registry.models))


def describe_model(model: LoadedModel) -> pb.Model:
    """A model as its message."""
    manifest, config = model.manifest, model.config
    described = pb.Model(
        name=model.name,
        parameter_count=model.parameters,
        inputs=map(describe_tensor, [manifest.points, *manifest.extra_inputs]),
        outputs=map(describe_tensor, manifest.outputs),
    )
    if config is not None:
        described.rates.extend(config.rates)
        described.feature_channels, described.attribute_channels = (
            config.channels,
            config.attributes,
        )
    return described
