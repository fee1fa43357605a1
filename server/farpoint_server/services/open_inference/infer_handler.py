"""Handler of ModelInfer: receive, parse, find shared memory, validate, admit, run the model.

One request of ModelStreamInfer takes the same way, and so may one that came over HTTP.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from farpoint_server import request_context
from farpoint_server.codec.open_inference import encoder, fps, program
from farpoint_server.codec.open_inference.message import InferMessage, read_infer_message
from farpoint_server.codec.open_inference.posix_memory import PosixMemory
from farpoint_server.codec.open_inference.shared_tensors import (
    SharedTensors,
    find_shared_tensors,
    read_shared_inputs,
    write_shared_outputs,
)
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError
from farpoint_server.models.loading import LoadedEncoder, LoadedModel
from farpoint_server.models.program import LoadedProgram
from farpoint_server.scheduling.admission import Hold
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.model_handler import ModelHandler
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.program_handler import ProgramHandler
from farpoint_server.services.sample_handler import INLINE_BYTES, SampleHandler
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import receive

T = TypeVar("T")
TIMEOUT = "timeout"


@dataclass(frozen=True)
class InferHandler:
    """Runs the model `fps` and the loaded models in the way that farpoint.v1 does.

    Args:
        sample_handler: Answers for `fps`.
        encode_handler: Answers for the loaded encoders.
        program_handler: Answers for the loaded programs.
        repository: Finds the model of a request.
        memory: Shared memory that requests may refer to.
    """

    sample_handler: SampleHandler
    encode_handler: EncodeHandler
    program_handler: ProgramHandler
    repository: ModelRepository
    memory: PosixMemory = field(default_factory=PosixMemory)

    async def handle(self, context: Context) -> pb.ModelInferResponse:
        """The response to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        handler = self.sample_handler
        handler.admission.check_room()
        message = self.parse(await receive(context, handler.receiving))
        owner = self.memory_owner(context.peer())
        return await self.infer(message, context.time_remaining(), owner)

    def parse(self, raw: bytes) -> InferMessage:
        """A received ModelInferRequest; raises InvalidRequestError."""
        return read_infer_message(raw)

    def memory_owner(self, peer: str) -> str | None:
        """Whose shared memory the current request may refer to: its token's, or everybody's.

        Args:
            peer: As gRPC names it.

        Returns:
            None if it may refer to none: from another machine, or where that is off.
        """
        if not self.memory.is_enabled or not request_context.is_local(peer):
            return None
        caller = request_context.caller.get()
        return caller if caller.startswith(request_context.TOKEN_PREFIX) else ""

    async def infer(
        self, message: InferMessage, timeout_s: float | None, owner: str | None
    ) -> pb.ModelInferResponse:
        """The response to a message.

        Args:
            message: The request.
            timeout_s: Seconds that the caller will still wait; None for ever.
            owner: As of `memory_owner`.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        request, limits = message.request, self.sample_handler.limits
        model = self.repository.find(request.model_name, request.model_version)
        if message.size > limits.message_bytes:
            expected = f"a message of at most {limits.message_bytes} bytes"
            raise InvalidRequestError("raw_input_contents", expected, f"{message.size} bytes")
        timeout_s = _least_timeout(request, timeout_s)
        shared = find_shared_tensors(request, self.memory, owner)
        if not shared.inputs:
            return await self._run(model, message, timeout_s, shared)
        with self.sample_handler.admission.hold(0, shared.input_bytes) as held:
            read = partial(read_shared_inputs, message, shared, self.memory)
            message = await self._copy(shared.input_bytes, read)
            return await self._run(model, message, timeout_s, shared, held)

    async def _run(
        self,
        model: LoadedModel | None,
        message: InferMessage,
        timeout_s: float | None,
        shared: SharedTensors,
        held: Hold | None = None,
    ) -> pb.ModelInferResponse:
        if model is None:
            response = await self._sample(message, timeout_s, held)
        elif isinstance(model, LoadedProgram):
            response = await self._infer(model, message, timeout_s, held)
        else:
            response = await self._encode(model, message, timeout_s, held)
        if not shared.outputs:
            return response
        write = partial(write_shared_outputs, response, shared, self.memory)
        return await self._copy(response.ByteSize(), write)

    async def _sample(
        self, message: InferMessage, timeout_s: float | None, held: Hold | None
    ) -> pb.ModelInferResponse:
        handler = self.sample_handler
        request = fps.parse_fps_request(message, handler.limits)
        if held is not None:
            held.add(request.points.shape[0], message.size)
        serialize = partial(fps.serialize_fps_response, message.request)
        return await handler.sample(request, timeout_s, serialize, is_admitted=held is not None)

    async def _encode(
        self,
        model: LoadedEncoder,
        message: InferMessage,
        timeout_s: float | None,
        held: Hold | None,
    ) -> pb.ModelInferResponse:
        handler = self.encode_handler
        request = encoder.parse_encoder_request(message, model.config, handler.limits)
        with _admitted(handler, request.points.shape[0], message.size, held):
            serialize = partial(
                encoder.serialize_encoder_response,
                message.request,
                model.name,
                model.config,
                request,
            )
            return await handler.encode(model, request, timeout_s, serialize)

    async def _infer(
        self,
        model: LoadedProgram,
        message: InferMessage,
        timeout_s: float | None,
        held: Hold | None,
    ) -> pb.ModelInferResponse:
        handler = self.program_handler
        request = program.parse_program_request(message, model.manifest, handler.limits)
        with _admitted(handler, request.points.shape[0], message.size, held):
            serialize = partial(
                program.serialize_program_response,
                message.request,
                model.name,
                model.manifest,
                request,
            )
            return await handler.infer(model, request, timeout_s, serialize)

    async def _copy(self, size: int, function: Callable[[], T]) -> T:
        """What a function returns that copies so many bytes, if these are many on a thread."""
        if size <= INLINE_BYTES:
            return function()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.sample_handler.threads, function)


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


def _admitted(
    handler: ModelHandler, points: int, size: int, held: Hold | None
) -> AbstractContextManager[object]:
    """Counts a request to a model, with its call where that is counted already."""
    if held is None:
        return handler.admission.hold(points, size)
    held.add(points, size)
    return nullcontext()
