"""gRPC servicer of inference.GRPCInferenceService, the Open Inference Protocol v2."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server import version
from farpoint_server.errors import DrainingError, UnsupportedError
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.services.open_inference.infer_stream import InferStream
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.http.calls import HandlerRegistry
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE = DESCRIPTOR.full_name
EXTENSIONS = (
    "model_repository",
    "model_repository(unload_dependents)",
    "model_configuration",
    "statistics",
    "parameters",
    "binary_tensor_data",
)
# Calls of Triton that are no part of our contract, and what is said to them.
UNSUPPORTED = {
    "TraceSetting": "traces are set up by --otlp-endpoint when the server starts",
    "LogSettings": "the log is set up by --log-level and --log-format when the server starts",
    **{
        f"{kind}SharedMemory{method}": "tensors come in the message; this server maps no memory"
        for kind in ("System", "Cuda")
        for method in ("Status", "Register", "Unregister")
    },
}
ADMIN_ALONE = "is answered at the addresses of --admin-listen alone"
Method: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True)
class OpenInferenceServicer:
    """Serves models through the handler, and describes them from the repository.

    Args:
        handler: Runs them.
        in_flight: Says when streams have to end.
        outgoing: Where the responses of streams count until they are written.
        idle_s: Seconds after which a stream ends that sends nothing.
    """

    handler: InferHandler
    in_flight: InFlight
    outgoing: Outgoing
    idle_s: float

    @property
    def repository(self) -> ModelRepository:
        """The models."""
        return self.handler.repository

    def infer(self, _: object, context: Context) -> Awaitable[pb.ModelInferResponse]:
        """ModelInfer."""
        return self.handler.handle(context)

    async def stream_infer(self, _: object, context: Context) -> None:
        """ModelStreamInfer."""
        stream = InferStream(context, self.handler, self.outgoing, self.idle_s)
        if not await stream.run(self.in_flight.draining):
            raise DrainingError("the server is shutting down")

    async def server_live(self, _: pb.ServerLiveRequest, __: Context) -> pb.ServerLiveResponse:
        """ServerLive."""
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, _: pb.ServerReadyRequest, __: Context) -> pb.ServerReadyResponse:
        """ServerReady."""
        return pb.ServerReadyResponse(ready=self.repository.is_serving())

    async def server_metadata(
        self, _: pb.ServerMetadataRequest, __: Context
    ) -> pb.ServerMetadataResponse:
        """ServerMetadata."""
        return pb.ServerMetadataResponse(
            name="farpoint-server", version=version(), extensions=EXTENSIONS
        )

    async def model_ready(self, request: pb.ModelReadyRequest, _: Context) -> pb.ModelReadyResponse:
        """ModelReady; a model that is not there is not ready."""
        ready = self.repository.is_ready(request.name, request.version)
        return pb.ModelReadyResponse(ready=ready)

    async def model_metadata(
        self, request: pb.ModelMetadataRequest, _: Context
    ) -> pb.ModelMetadataResponse:
        """ModelMetadata."""
        return self.repository.metadata(request.name, request.version)

    async def model_config(
        self, request: pb.ModelConfigRequest, _: Context
    ) -> pb.ModelConfigResponse:
        """ModelConfig."""
        return self.repository.config(request.name, request.version)

    async def model_statistics(
        self, request: pb.ModelStatisticsRequest, _: Context
    ) -> pb.ModelStatisticsResponse:
        """ModelStatistics."""
        return self.repository.describe_statistics(request.name, request.version)

    async def repository_index(
        self, request: pb.RepositoryIndexRequest, _: Context
    ) -> pb.RepositoryIndexResponse:
        """RepositoryIndex."""
        return self.repository.index(request)

    async def load(
        self, request: pb.RepositoryModelLoadRequest, _: Context
    ) -> pb.RepositoryModelLoadResponse:
        """RepositoryModelLoad."""
        await self.repository.load(request)
        return pb.RepositoryModelLoadResponse()

    async def unload(
        self, request: pb.RepositoryModelUnloadRequest, _: Context
    ) -> pb.RepositoryModelUnloadResponse:
        """RepositoryModelUnload."""
        await self.repository.unload(request)
        return pb.RepositoryModelUnloadResponse()

    def add_to(self, server: HandlerRegistry) -> None:
        """Registers all but administration."""
        # They read their messages themselves, when there is room for them.
        methods: dict[str, Handler] = {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(
                self.infer, response_serializer=pb.ModelInferResponse.SerializeToString
            ),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self.stream_infer),
            **_unary(self._descriptions()),
        }
        for name, text in UNSUPPORTED.items():
            methods[name] = _refusal(f"{name}: {text}")
        _register(server, methods)

    def add_descriptions_to(self, server: HandlerRegistry) -> None:
        """Registers what describes models, at a server of administration alone."""
        _register(server, _unary(self._descriptions()))

    def add_admin_to(self, server: HandlerRegistry, is_admin: bool) -> None:
        """Registers what loads and unloads models; a refusal, where that is not administered."""
        methods = self._administration()
        refusals = {name: _refusal(f"{name} {ADMIN_ALONE}") for name in methods}
        _register(server, _unary(methods) if is_admin else refusals)

    def _descriptions(self) -> dict[str, tuple[type[Any], Method]]:
        return {
            "ServerLive": (pb.ServerLiveRequest, self.server_live),
            "ServerReady": (pb.ServerReadyRequest, self.server_ready),
            "ServerMetadata": (pb.ServerMetadataRequest, self.server_metadata),
            "ModelReady": (pb.ModelReadyRequest, self.model_ready),
            "ModelMetadata": (pb.ModelMetadataRequest, self.model_metadata),
            "ModelConfig": (pb.ModelConfigRequest, self.model_config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self.model_statistics),
            "RepositoryIndex": (pb.RepositoryIndexRequest, self.repository_index),
        }

    def _administration(self) -> dict[str, tuple[type[Any], Method]]:
        return {
            "RepositoryModelLoad": (pb.RepositoryModelLoadRequest, self.load),
            "RepositoryModelUnload": (pb.RepositoryModelUnloadRequest, self.unload),
        }


def _unary(methods: dict[str, tuple[type[Any], Method]]) -> dict[str, Handler]:
    return {
        name: grpc.unary_unary_rpc_method_handler(
            answer, kind.FromString, lambda response: response.SerializeToString()
        )
        for name, (kind, answer) in methods.items()
    }


def _register(server: HandlerRegistry, methods: dict[str, Handler]) -> None:
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))


def _refusal(text: str) -> Handler:
    """A method that answers UNIMPLEMENTED without reading its message."""

    async def refuse(_: object, __: Context) -> None:
        raise UnsupportedError(text)

    # On the wire a message and a stream of one are the same.
    return grpc.stream_unary_rpc_method_handler(refuse)
