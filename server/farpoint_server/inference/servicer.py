"""inference.GRPCInferenceService: convert, delegate, convert."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from farpoint_server import rpc, version
from farpoint_server.admission import Receiving
from farpoint_server.errors import InvalidRequestError, NotFoundError
from farpoint_server.inference import fps
from farpoint_server.inference.v2 import open_inference_pb2 as pb
from farpoint_server.receiving import receive
from farpoint_server.rpc import Context
from farpoint_server.sampler import Sampler

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE = DESCRIPTOR.full_name


@dataclass(frozen=True)
class InferenceServicer:
    """Serves the model `fps` from the sampler that farpoint.v1 uses.

    Args:
        sampler: Does the work.
        receiving: Whose turn it is to send a message.
        is_serving: Whether the server is healthy.
    """

    sampler: Sampler
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
        known = request.name == fps.NAME and request.version in ("", fps.VERSION)
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
        _check_model(request.name, request.version)
        return fps.metadata()

    async def infer(self, _: object, context: Context) -> pb.ModelInferResponse:
        """ModelInfer."""
        request, size = await self._receive(context)
        sampler = self.sampler
        _check_model(request.model_name, request.model_version)
        if size > sampler.limits.message_bytes:
            expected = f"a message of at most {sampler.limits.message_bytes} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{size} bytes")
        plan = fps.read_plan(request, sampler.limits)
        with sampler.admission.hold(plan.points.shape[0], size):
            encode = partial(fps.encode, request)
            answer, _outcome = await sampler.run(plan, context.time_remaining(), encode)
        return answer

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


def _check_model(name: str, wanted_version: str) -> None:
    if name != fps.NAME:
        raise NotFoundError(f"model_name: expected {fps.NAME!r}, got {name!r}")
    if wanted_version not in ("", fps.VERSION):
        raise NotFoundError(f"model_version: expected {fps.VERSION!r}, got {wanted_version!r}")
