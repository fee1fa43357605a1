"""Handler of ModelInfer: receive, parse, validate, admit, run the model.

One request of ModelStreamInfer takes the same way, and so may one that came over HTTP.
"""

from dataclasses import dataclass
from functools import partial

from farpoint_server.codec.open_inference import encoder, fps, program
from farpoint_server.codec.open_inference.message import InferMessage, read_infer_message
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError
from farpoint_server.models.loading import LoadedEncoder
from farpoint_server.models.program import LoadedProgram
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.program_handler import ProgramHandler
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import receive

TIMEOUT = "timeout"


@dataclass(frozen=True)
class InferHandler:
    """Runs the model `fps` and the loaded models in the way that farpoint.v1 does.

    Args:
        sample_handler: Answers for `fps`.
        encode_handler: Answers for the loaded encoders.
        program_handler: Answers for the loaded programs.
        repository: Finds the model of a request.
    """

    sample_handler: SampleHandler
    encode_handler: EncodeHandler
    program_handler: ProgramHandler
    repository: ModelRepository

    async def handle(self, context: Context) -> pb.ModelInferResponse:
        """The response to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        handler = self.sample_handler
        handler.admission.check_room()
        message = self.parse(await receive(context, handler.receiving))
        return await self.infer(message, context.time_remaining())

    def parse(self, raw: bytes) -> InferMessage:
        """A received ModelInferRequest; raises InvalidRequestError."""
        return read_infer_message(raw)

    async def infer(self, message: InferMessage, timeout_s: float | None) -> pb.ModelInferResponse:
        """The response to a message.

        Args:
            message: The request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        request, limits = message.request, self.sample_handler.limits
        model = self.repository.find(request.model_name, request.model_version)
        if message.size > limits.message_bytes:
            expected = f"a message of at most {limits.message_bytes} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{message.size} bytes")
        timeout_s = _least_timeout(request, timeout_s)
        if model is None:
            return await self._sample(message, timeout_s)
        if isinstance(model, LoadedProgram):
            return await self._infer(model, message, timeout_s)
        return await self._encode(model, message, timeout_s)

    async def _sample(
        self, message: InferMessage, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        handler = self.sample_handler
        request = fps.parse_fps_request(message, handler.limits)
        serialize = partial(fps.serialize_fps_response, message.request)
        return await handler.sample(request, timeout_s, serialize)

    async def _encode(
        self, model: LoadedEncoder, message: InferMessage, timeout_s: float | None
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

    async def _infer(
        self, model: LoadedProgram, message: InferMessage, timeout_s: float | None
    ) -> pb.ModelInferResponse:
        handler = self.program_handler
        request = program.parse_program_request(message, model.manifest, handler.limits)
        with handler.admission.hold(request.points.shape[0], message.size):
            serialize = partial(
                program.serialize_program_response,
                message.request,
                model.name,
                model.manifest,
                request,
            )
            return await handler.infer(model, request, timeout_s, serialize)


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
