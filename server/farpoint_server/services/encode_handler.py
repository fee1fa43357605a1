"""Handler of encoding requests: receive, parse, validate, admit, decode, schedule, serialize.

Encode and ModelInfer of a loaded encoder share its steps.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from farpoint.v1 import sampling_pb2
from farpoint_server.codec.encode import (
    ParsedEncodeRequest,
    decode_encode_request,
    parse_encode_request,
    serialize_encode_response,
)
from farpoint_server.codec.parts import check_encode
from farpoint_server.engine.types import Outcome, StageOutput
from farpoint_server.models.forward import EncodeWork
from farpoint_server.models.loading import LoadedEncoder
from farpoint_server.services.model_handler import ModelHandler
from farpoint_server.transport.handlers import Context

T = TypeVar("T")


class EncodeHandler(ModelHandler):
    """Turns encoding requests into responses."""

    async def handle(self, context: Context) -> bytes:
        """The serialized EncodeResponse to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        arrived = time.monotonic()
        check = check_encode(self.limits.clouds)
        message, size = await self.receive(context, sampling_pb2.EncodeRequest, check)
        model = self.registry.encoder(message.model)
        request = parse_encode_request(message, size, model.config, self.limits)
        with self.admission.hold(request.points.shape[0], size):
            serialize = partial(serialize_encode_response, model.name, request, arrived)
            chunks = await self.encode(model, request, context.time_remaining(), serialize)
        return b"".join(chunks)

    async def encode(
        self,
        model: LoadedEncoder,
        request: ParsedEncodeRequest,
        timeout_s: float | None,
        serialize: Callable[[Outcome[list[StageOutput]]], T],
    ) -> T:
        """The response to a request that is admitted, as `serialize` makes it."""

        def decode() -> EncodeWork:
            clouds = decode_encode_request(request)
            return EncodeWork(model.encoders, clouds, cost_key=f"encode {model.name}")

        return await self.run(model.name, request.lengths, decode, timeout_s, serialize)
