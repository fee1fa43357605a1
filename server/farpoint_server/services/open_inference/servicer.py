"""gRPC servicer of inference.GRPCInferenceService, the Open Inference Protocol v2.

It serves the model `fps` as farpoint.v1 does, and every loaded model by its manifest.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import grpc

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server import request_context, version
from farpoint_server.codec.open_inference import exported, fps
from farpoint_server.codec.open_inference.messages import InferMessage, read_infer_message
from farpoint_server.codec.tensors import RequestLimits, check_message_size
from farpoint_server.codec.wire import Buffer
from farpoint_server.errors import InvalidRequestError, clear_tracebacks, status_of
from farpoint_server.kinds.model import ModelWork
from farpoint_server.services.call import Call, model_call, sample_call
from farpoint_server.services.open_inference.repository import DESCRIPTOR, ModelRepository
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.stream import OrderedStream
from farpoint_server.transport.grpc import interceptor
from farpoint_server.transport.grpc.handlers import (
    Context,
    Methods,
    UnaryFunction,
    unary_methods,
)
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.outgoing import Outgoing

EXTENSIONS = (
    "model_configuration",
    "parameters",
    "binary_tensor_data",
)
TIMEOUT = "timeout"
FINAL = "triton_final_response"


@dataclass(frozen=True)
class OpenInferenceServicer:
    """Serves the models of its repository and their metadata."""

    pipeline: Pipeline
    model_limits: RequestLimits
    repository: ModelRepository
    in_flight: InFlight
    outgoing: Outgoing
    idle_s: float

    async def infer(self, _: object, context: Context) -> pb.ModelInferResponse:
        """ModelInfer."""
        arrived = time.monotonic()
        message = read_infer_message(await self.pipeline.receive(context))
        return await self.answer(message, arrived, context.time_remaining())

    async def stream_infer(self, _: object, context: Context) -> None:
        """ModelStreamInfer."""
        await InferStream(context, self).run(self.in_flight.draining)

    async def answer(
        self, message: InferMessage, arrived: float, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        """The response to a message; raises ServiceError."""
        request = message.request
        model = self.repository.find(request.model_name, request.model_version)
        check_message_size(message.size, self.pipeline.limits)
        timeout_s = _least_timeout(request, timeout_s)
        if model is None:
            sample = fps.parse_fps_request(message, self.pipeline.limits)
            serialize = partial(fps.serialize_fps_response, request, arrived)
            call: Call[pb.ModelInferResponse] = sample_call(sample, serialize)
        else:
            manifest = model.manifest
            infer = exported.parse_exported_request(message, manifest, self.model_limits)
            described = request, model.name, manifest, infer, arrived
            call = model_call(
                model.name,
                infer.lengths,
                message.size,
                lambda: ModelWork(model, exported.decode_exported_request(infer, manifest)),
                partial(exported.serialize_exported_response, *described),
            )
        return await self.pipeline.run(call, timeout_s)

    def methods(self) -> Methods:
        """Handlers of all methods; those that run models read when there is headroom."""
        models = self.repository
        metadata = pb.ServerMetadataResponse(
            name="farpoint-server", version=version(), extensions=EXTENSIONS
        )
        # An unknown model is not ready.
        answers: dict[str, UnaryFunction] = {
            "ServerLive": lambda _: pb.ServerLiveResponse(live=True),
            "ServerReady": lambda _: pb.ServerReadyResponse(ready=models.is_serving()),
            "ServerMetadata": lambda _: metadata,
            "ModelReady": lambda r: pb.ModelReadyResponse(ready=models.is_ready(r.name, r.version)),
            "ModelMetadata": lambda r: models.metadata(r.name, r.version),
            "ModelConfig": lambda r: models.config(r.name, r.version),
            "RepositoryIndex": models.index,
        }
        return {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(
                self.infer, response_serializer=pb.ModelInferResponse.SerializeToString
            ),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self.stream_infer),
            **unary_methods(DESCRIPTOR, answers),
        }


class InferStream(OrderedStream):
    """State of one ModelStreamInfer: each request as in ModelInfer, errors in the answers."""

    def __init__(self, context: Context, servicer: OpenInferenceServicer) -> None:
        super().__init__(context, servicer.outgoing, servicer.idle_s)
        self._servicer = servicer

    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The ModelStreamInferResponse to one request; an error fails only this request."""
        request_context.fork(request_index=index)
        message: InferMessage | None = None
        try:
            message = read_infer_message(raw)
            timeout_s = self._context.time_remaining()
            answer = await self._servicer.answer(message, arrived, timeout_s)
        except Exception as error:
            interceptor.log_end(arrived, error)
            clear_tracebacks(error)
            return [self._failure(message, error).SerializeToString()]
        interceptor.log_end(arrived)
        answer.parameters[FINAL].bool_param = True
        return [pb.ModelStreamInferResponse(infer_response=answer).SerializeToString()]

    def _failure(
        self, message: InferMessage | None, error: Exception
    ) -> pb.ModelStreamInferResponse:
        answer = pb.ModelInferResponse()
        if message is not None:
            answer.id, answer.model_name = message.request.id, message.request.model_name
        answer.parameters[FINAL].bool_param = True
        text = status_of(error, self._request_id).message
        return pb.ModelStreamInferResponse(error_message=text, infer_response=answer)


def _least_timeout(request: pb.ModelInferRequest, timeout_s: float | None) -> float | None:
    """The timeout of the call or Triton's parameter in microseconds, whichever is less."""
    if TIMEOUT not in request.parameters:
        return timeout_s
    value = request.parameters[TIMEOUT]
    microseconds = value.int64_param or value.uint64_param
    if microseconds < 0:
        raise InvalidRequestError(f"parameters[{TIMEOUT}]", "microseconds", microseconds)
    if microseconds == 0:
        return timeout_s
    return min(microseconds / 1e6, float("inf") if timeout_s is None else timeout_s)
