"""Handler of Infer: receive, parse, validate, admit, decode, schedule, serialize.

Infer and ModelInfer of a loaded program share its steps.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.infer import (
    Outputs,
    ParsedInferRequest,
    decode_infer_request,
    parse_infer_request,
    serialize_infer_response,
)
from farpoint_server.codec.parts import check_infer
from farpoint_server.engine.types import Outcome
from farpoint_server.models.program import LoadedProgram, ProgramWork
from farpoint_server.services.model_handler import ModelHandler
from farpoint_server.transport.handlers import Context

T = TypeVar("T")


class ProgramHandler(ModelHandler):
    """Turns requests to programs into responses."""

    async def handle(self, context: Context) -> bytes:
        """The serialized InferResponse to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        arrived = time.monotonic()
        check = check_infer(self.limits.clouds)
        message, size = await self.receive(context, sampling_pb2.InferRequest, check)
        program = self.registry.program(message.model)
        manifest = program.manifest
        request = parse_infer_request(message, size, manifest, self.limits)
        with self.admission.hold(request.points.shape[0], size):
            serialize = partial(serialize_infer_response, program.name, manifest, request, arrived)
            chunks = await self.infer(program, request, context.time_remaining(), serialize)
        return b"".join(chunks)

    async def infer(
        self,
        program: LoadedProgram,
        request: ParsedInferRequest,
        timeout_s: float | None,
        serialize: Callable[[Outcome[Outputs]], T],
    ) -> T:
        """The response to a request that is admitted, as `serialize` makes it."""

        def decode() -> ProgramWork:
            return ProgramWork(program, decode_infer_request(request, program.manifest))

        return await self.run(program.name, request.lengths, decode, timeout_s, serialize)
