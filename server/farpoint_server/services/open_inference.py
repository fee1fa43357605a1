"""inference.GRPCInferenceService: convert, delegate, convert."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from farpoint_server import version
from farpoint_server.codec.open_inference import encoder, fps
from farpoint_server.codec.open_inference.points import VERSION
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError, NotFoundError
from farpoint_server.models.registry import LoadedModel
from farpoint_server.scheduling.admission import Receiving
from farpoint_server.services.encode_handler import Encoders
from farpoint_server.services.sample_handler import Sampler
from farpoint_server.transport import interceptor as rpc
from farpoint_server.transport.interceptor import Context
from farpoint_server.transport.receive import receive

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE = DESCRIPTOR.full_name


@dataclass(frozen=True)
class InferenceServicer:
    """Serves the model `fps` and the loaded encoders in the way that farpoint.v1 does.

    Args:
        sampler: Does the work of `fps`.
        encoders: Do their own.
        receiving: Whose turn it is to send a message.
        is_serving: Whether the server is healthy.
    """

    sampler: Sampler
    encoders: Encoders
    receiving: Receiving
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
        request, size = await self._receive(context)
        model = self._find(request.model_name, request.model_version)
        most = self.sampler.limits.message_bytes
        if size > most:
            expected = f"a message of at most {most} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{size} bytes")
        if model is None:
            return await self._sample(request, size, context.time_remaining())
        return await self._encode(model, request, size, context.time_remaining())

    async def _sample(
        self, request: pb.ModelInferRequest, size: int, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        plan = fps.read_plan(request, self.sampler.limits)
        with self.sampler.admission.hold(plan.points.shape[0], size):
            encode = partial(fps.encode, request)
            answer, _outcome = await self.sampler.run(plan, timeout_s, encode)
        return answer

    async def _encode(
        self, model: LoadedModel, request: pb.ModelInferRequest, size: int, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        plan = encoder.read_plan(request, model.config, self.encoders.limits)
        with self.encoders.admission.hold(plan.points.shape[0], size):
            encode = partial(encoder.encode, request, model.name, model.config, plan)
            answer, _encoded = await self.encoders.run(model, plan, timeout_s, encode)
        return answer

    def _names(self) -> list[str]:
        return [fps.NAME, *(model.name for model in self.encoders.registry.models)]

    def _find(self, name: str, version_: str) -> LoadedModel | None:
        """The encoder of a name, None for `fps`; raises NotFoundError."""
        names = self._names()
        if name not in names:
            expected = f"one of {', '.join(names)}"
            raise NotFoundError(f"model_name: expected {expected}, got {name!r}")
        if version_ not in ("", VERSION):
            raise NotFoundError(f"model_version: expected {VERSION!r}, got {version_!r}")
        return None if name == fps.NAME else self.encoders.registry.get(name)

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

    async def _receive(self, context: Context) -> tuple[pb.ModelInferRequest, int]:
        raw = await receive(context, self.sampler.admission, self.receiving)
        try:
            return pb.ModelInferRequest.FromString(raw), len(raw)
        except DecodeError as error:
            raise rpc.parse_error(raw) from error
