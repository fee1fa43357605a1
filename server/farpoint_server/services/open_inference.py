"""gRPC servicer of inference.GRPCInferenceService, the Open Inference Protocol v2."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from farpoint_server import version
from farpoint_server.codec.open_inference import encoder, fps
from farpoint_server.codec.open_inference.message import InferMessage, read_infer_message
from farpoint_server.codec.open_inference.points import VERSION
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError, NotFoundError, quoted
from farpoint_server.models.registry import LoadedModel
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import receive

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE = DESCRIPTOR.full_name


@dataclass(frozen=True)
class OpenInferenceServicer:
    """Serves the model `fps` and the loaded encoders in the way that farpoint.v1 does.

    Args:
        sample_handler: Answers for `fps`.
        encode_handler: Answers for the loaded encoders.
        is_serving: Whether the server is healthy.
    """

    sample_handler: SampleHandler
    encode_handler: EncodeHandler
    is_serving: Callable[[], bool]

    async def server_live(self, _: pb.ServerLiveRequest, __: Context) -> pb.ServerLiveResponse:
        """ServerLive."""
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, _: pb.ServerReadyRequest, __: Context) -> pb.ServerReadyResponse:
        """ServerReady."""
        return pb.ServerReadyResponse(ready=self.is_serving())

    async def model_ready(self, request: pb.ModelReadyRequest, _: Context) -> pb.ModelReadyResponse:
        """ModelReady; a model that is not there is not ready."""
        known = request.name in self._names() and request.version in ("", VERSION)
        return pb.ModelReadyResponse(ready=known and self.is_serving())

    async def server_metadata(
        self, _: pb.ServerMetadataRequest, __: Context
    ) -> pb.ServerMetadataResponse:
        """ServerMetadata."""
        return pb.ServerMetadataResponse(name="farpoint-server", version=version())

    async def model_metadata(
        self, request: pb.ModelMetadataRequest, _: Context
    ) -> pb.ModelMetadataResponse:
        """ModelMetadata."""
        model = self._find(request.name, request.version)
        return encoder.metadata(model.name, model.config) if model else fps.metadata()

    async def infer(self, _: object, context: Context) -> pb.ModelInferResponse:
        """ModelInfer."""
        handler = self.sample_handler
        handler.admission.check_room()
        raw = await receive(context, handler.receiving)
        message = read_infer_message(raw)
        model = self._find(message.request.model_name, message.request.model_version)
        if message.size > handler.limits.message_bytes:
            expected = f"a message of at most {handler.limits.message_bytes} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{message.size} bytes")
        if model is None:
            return await self._sample(message, context.time_remaining())
        return await self._encode(model, message, context.time_remaining())

    async def _sample(
        self, message: InferMessage, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        handler = self.sample_handler
        request = fps.parse_fps_request(message, handler.limits)
        serialize = partial(fps.serialize_fps_response, message.request)
        return await handler.sample(request, timeout_s, serialize)

    async def _encode(
        self, model: LoadedModel, message: InferMessage, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        handler = self.encode_handler
        request = encoder.parse_encoder_request(message, model.config, handler.limits)
        with handler.admission.hold(request.points.shape[0], message.size):
            serialize = partial(
                encoder.serialize_encoder_response,
                message.request,
                model.name,
                model.config,
                request,
            )
            return await handler.encode(model, request, timeout_s, serialize)

    def _names(self) -> list[str]:
        return [fps.NAME, *(model.name for model in self.encode_handler.registry.models)]

    def _find(self, name: str, version_: str) -> LoadedModel | None:
        """The encoder of a name, None for `fps`; raises NotFoundError."""
        names = self._names()
        if name not in names:
            expected = f"one of {', '.join(names)}"
            raise NotFoundError(f"model_name: expected {expected}, got {quoted(name)}")
        if version_ not in ("", VERSION):
            raise NotFoundError(f"model_version: expected {VERSION!r}, got {quoted(version_)}")
        return None if name == fps.NAME else self.encode_handler.registry.get(name)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the servicer."""
        # Reads its one message itself, when there is room for it.
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(
                self.infer, response_serializer=pb.ModelInferResponse.SerializeToString
            )
        }
        for name, kind, answer in (
            ("ServerLive", pb.ServerLiveRequest, self.server_live),
            ("ServerReady", pb.ServerReadyRequest, self.server_ready),
            ("ModelReady", pb.ModelReadyRequest, self.model_ready),
            ("ServerMetadata", pb.ServerMetadataRequest, self.server_metadata),
            ("ModelMetadata", pb.ModelMetadataRequest, self.model_metadata),
        ):
            methods[name] = grpc.unary_unary_rpc_method_handler(
                answer, kind.FromString, lambda response: response.SerializeToString()
            )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
