"""Handler of ModelInfer: parses a request to `fps`, an encoder or an exported model.

One request of ModelStreamInfer takes the same way, and so may one that came over HTTP.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.encode import decode_encode_request
from farpoint_server.codec.open_inference import encoder, exported, fps
from farpoint_server.codec.open_inference.message import InferMessage, read_infer_message
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import InvalidRequestError
from farpoint_server.models.forward import EncodeWork
from farpoint_server.models.loading import LoadedEncoder
from farpoint_server.models.program import LoadedProgram, ProgramWork
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.pipeline import Call, Pipeline, SampleCall
from farpoint_server.transport.handlers import Context

TIMEOUT = "timeout"
InferCall: TypeAlias = Call[Any, pb.ModelInferResponse]


@dataclass(frozen=True)
class InferHandler:
    """Runs the model `fps` and the loaded models in the way that farpoint.v1 does.

    Args:
        pipeline: Which requests take.
        model_limits: What one request to a loaded model may hold at most.
        repository: Finds the model of a request.
    """

    pipeline: Pipeline
    model_limits: RequestLimits
    repository: ModelRepository

    async def handle(self, context: Context) -> pb.ModelInferResponse:
        """The response to the one message of a call; raises ServiceError."""
        arrived = time.monotonic()
        message = read_infer_message(await self.pipeline.receive(context))
        return await self.infer(message, arrived, context.time_remaining())

    async def infer(
        self, message: InferMessage, arrived: float, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        """The response to a message.

        Args:
            message: The request.
            arrived: When it did, in seconds of time.monotonic.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        request, most = message.request, self.pipeline.limits.message_bytes
        model = self.repository.find(request.model_name, request.model_version)
        if message.size > most:
            expected = f"a message of at most {most} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{message.size} bytes")
        timeout_s = _least_timeout(request, timeout_s)
        if model is None:
            parsed = fps.parse_fps_request(message, self.pipeline.limits)
            serialize = partial(fps.serialize_fps_response, request, arrived)
            call: InferCall = SampleCall(parsed, serialize)
        elif isinstance(model, LoadedProgram):
            call = _call_exported(model, message, arrived, self.model_limits)
        else:
            call = _call_encoder(model, message, arrived, self.model_limits)
        return await self.pipeline.run(call, timeout_s)


def _call_encoder(
    model: LoadedEncoder, message: InferMessage, arrived: float, limits: RequestLimits
) -> InferCall:
    parsed = encoder.parse_encoder_request(message, model.config, limits)
    return Call(
        *(model.name, parsed.lengths, message.size),
        lambda: EncodeWork(
            model.encoders, decode_encode_request(parsed), cost_key=f"encode {model.name}"
        ),
        partial(
            encoder.serialize_encoder_response,
            *(message.request, model.name, model.config, parsed, arrived),
        ),
    )


def _call_exported(
    model: LoadedProgram, message: InferMessage, arrived: float, limits: RequestLimits
) -> InferCall:
    parsed = exported.parse_exported_request(message, model.manifest, limits)
    return Call(
        *(model.name, parsed.lengths, message.size),
        lambda: ProgramWork(model, exported.decode_exported_request(parsed, model.manifest)),
        partial(
            exported.serialize_exported_response,
            *(message.request, model.name, model.manifest, parsed, arrived),
        ),
    )


def _least_timeout(request: pb.ModelInferRequest, timeout_s: float | None) -> float | None:
    """The time of the call, or that of Triton's parameter, in microseconds, if it is less."""
    if TIMEOUT not in request.parameters:
        return timeout_s
    value = request.parameters[TIMEOUT]
    microseconds = value.int64_param or value.uint64_param
    if microseconds < 0:
        raise InvalidRequestError(f"parameters[{TIMEOUT}]", "microseconds", microseconds)
    if microseconds == 0:
        return timeout_s
    return min(microseconds / 1e6, float("inf") if timeout_s is None else timeout_s)
