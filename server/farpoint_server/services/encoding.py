"""gRPC servicer of the RPCs of farpoint.v1.SamplingService that are about models."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.infer import describe_tensor
from farpoint_server.models.loading import LoadedModel
from farpoint_server.models.program import LoadedProgram
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.program_handler import ProgramHandler
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.http.calls import HandlerRegistry

SERVICE = sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"].full_name


@dataclass(frozen=True)
class EncodingServicer:
    """Answers Encode, Infer and ListModels, beside the SamplingServicer that answers the rest."""

    handler: EncodeHandler
    programs: ProgramHandler

    def encode(self, _: object, context: Context) -> Awaitable[bytes]:
        """Encode."""
        return self.handler.handle(context)

    def infer(self, _: object, context: Context) -> Awaitable[bytes]:
        """Infer."""
        return self.programs.handle(context)

    async def list_models(
        self, _: sampling_pb2.ListModelsRequest, __: Context
    ) -> sampling_pb2.ListModelsResponse:
        """ListModels."""
        models = map(describe_model, self.handler.registry.models)
        return sampling_pb2.ListModelsResponse(models=models)

    def add_to(self, server: HandlerRegistry) -> None:
        """Registers the servicer; messages are received when there is room for it."""
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Encode": grpc.stream_unary_rpc_method_handler(self.encode),
            "Infer": grpc.stream_unary_rpc_method_handler(self.infer),
            "ListModels": grpc.unary_unary_rpc_method_handler(
                self.list_models,
                sampling_pb2.ListModelsRequest.FromString,
                sampling_pb2.ListModelsResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))


def describe_model(model: LoadedModel) -> sampling_pb2.Model:
    """A model as its message."""
    if isinstance(model, LoadedProgram):
        manifest = model.manifest
        return sampling_pb2.Model(
            name=model.name,
            parameter_count=model.parameters,
            inputs=map(describe_tensor, [manifest.points, *manifest.extra_inputs]),
            outputs=map(describe_tensor, manifest.outputs),
        )
    return sampling_pb2.Model(
        name=model.name,
        rates=model.config.rates,
        feature_channels=model.config.channels,
        attribute_channels=model.config.attributes,
        parameter_count=model.parameters,
    )
