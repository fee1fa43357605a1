"""gRPC servicer of inference.GRPCInferenceService, the Open Inference Protocol v2."""

from dataclasses import dataclass

import grpc

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server import version
from farpoint_server.errors import DrainingError
from farpoint_server.services.methods import Answer, Handler, Methods, refusals, unary_methods
from farpoint_server.services.open_inference.infer_handler import InferHandler, InferStream
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.limits import InFlight, Outgoing

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
EXTENSIONS = (
    "model_repository",
    "model_repository(unload_dependents)",
    "model_configuration",
    "statistics",
    "parameters",
    "binary_tensor_data",
)
# Calls of Triton that are no part of our contract, and the text of their refusal.
UNSUPPORTED = {
    "TraceSetting": "traces are set up by --otlp-endpoint when the server starts",
    "LogSettings": "the log is set up by --log-level and --log-format when the server starts",
    **{
        f"{kind}SharedMemory{method}": "tensors come in the message; this server maps no memory"
        for kind in ("System", "Cuda")
        for method in ("Status", "Register", "Unregister")
    },
}


@dataclass(frozen=True)
class OpenInferenceServicer:
    """Serves models through the handler, and describes them from its repository."""

    handler: InferHandler
    in_flight: InFlight
    outgoing: Outgoing
    idle_s: float

    async def infer(self, _: object, context: Context) -> pb.ModelInferResponse:
        """ModelInfer."""
        return await self.handler.handle(context)

    async def stream_infer(self, _: object, context: Context) -> None:
        """ModelStreamInfer."""
        stream = InferStream(context, self.handler, self.outgoing, self.idle_s)
        if not await stream.run(self.in_flight.draining):
            raise DrainingError("the server is shutting down")

    def inference(self) -> Methods:
        """Handlers that run models; they read messages themselves, when there is headroom."""
        methods: dict[str, Handler] = {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(
                self.infer, response_serializer=pb.ModelInferResponse.SerializeToString
            ),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self.stream_infer),
        }
        for name, text in UNSUPPORTED.items():
            methods.update(refusals([name], f": {text}"))
        return methods

    def descriptions(self) -> Methods:
        """Handlers that describe the server and its models; an unknown model is not ready."""
        models = self.handler.repository
        metadata = pb.ServerMetadataResponse(
            name="farpoint-server", version=version(), extensions=EXTENSIONS
        )
        answers: dict[str, Answer] = {
            "ServerLive": lambda _: pb.ServerLiveResponse(live=True),
            "ServerReady": lambda _: pb.ServerReadyResponse(ready=models.is_serving()),
            "ServerMetadata": lambda _: metadata,
            "ModelReady": lambda r: pb.ModelReadyResponse(ready=models.is_ready(r.name, r.version)),
            "ModelMetadata": lambda r: models.metadata(r.name, r.version),
            "ModelConfig": lambda r: models.config(r.name, r.version),
            "ModelStatistics": lambda r: models.describe_statistics(r.name, r.version),
            "RepositoryIndex": models.index,
        }
        return unary_methods(DESCRIPTOR, answers)

    def administration(self) -> Methods:
        """Handlers that load and unload models."""
        models = self.handler.repository
        answers: dict[str, Answer] = {
            "RepositoryModelLoad": models.load,
            "RepositoryModelUnload": models.unload,
        }
        return unary_methods(DESCRIPTOR, answers)
