"""farpoint.v1.SamplingService: convert, delegate, convert."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from farpoint.v1 import sampling_pb2
from farpoint_server import request_context as call
from farpoint_server.codec.sample_request import check_size, read_plan
from farpoint_server.codec.wire import (
    Buffer,
    SampleMessage,
    nested,
    read_request,
    read_stream_request,
)
from farpoint_server.errors import DrainingError, clear_tracebacks, status_of
from farpoint_server.services import upload as large
from farpoint_server.services.sample_handler import Sampler
from farpoint_server.services.stream import SampleStream
from farpoint_server.transport import interceptor as rpc
from farpoint_server.transport.drain import InFlight
from farpoint_server.transport.interceptor import Context
from farpoint_server.transport.receive import ReceiveTurns, receive

SERVICE = sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"].full_name


@dataclass(frozen=True)
class SamplingServicer:
    """Answers requests from the sampler and GetServerInfo from what it was given.

    Not a generated servicer, whose messages are parsed before it sees them: requests are read
    from the context as bytes (see codec/wire.py), and only when there is room for them.
    """

    sampler: Sampler
    receiving: ReceiveTurns
    in_flight: InFlight
    info: sampling_pb2.GetServerInfoResponse

    async def sample(self, _: object, context: Context) -> bytes:
        """Sample."""
        arrived = time.monotonic()
        chunks = await self.sampler.answer(
            await self._receive(context), context.time_remaining(), arrived
        )
        return b"".join(chunks)

    async def sample_stream(self, _: object, context: Context) -> None:
        """SampleStream."""
        request_id = rpc.request_id_of(context.invocation_metadata())

        async def answer(index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
            return await self._answer_in_stream(context, request_id, index, raw, arrived)

        if not await SampleStream(context, answer).run(self.in_flight.draining):
            raise DrainingError("the server is shutting down")

    async def sample_large(self, _: object, context: Context) -> bytes:
        """SampleLarge."""
        arrived = time.monotonic()
        sampler, admission = self.sampler, self.sampler.admission
        request = await large.read_head(context)
        check_size(SampleMessage(request, None, request.ByteSize()), sampler.limits)
        size = large.points_size(request, sampler.limits, admission.max_bytes)
        with admission.hold(request.points.shape[0], size):
            plan = read_plan(await large.read_body(context, request, size), sampler.limits)
            chunks = await sampler.work(plan, context.time_remaining(), arrived)
        field = sampling_pb2.SampleLargeResponse.RESPONSE_FIELD_NUMBER
        return b"".join(nested(field, chunks))

    async def get_server_info(
        self, _: sampling_pb2.GetServerInfoRequest, __: Context
    ) -> sampling_pb2.GetServerInfoResponse:
        """GetServerInfo."""
        return self.info

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the servicer. On the wire one message is a stream of one message."""
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Sample": grpc.stream_unary_rpc_method_handler(self.sample),
            "SampleLarge": grpc.stream_unary_rpc_method_handler(self.sample_large),
            "SampleStream": grpc.stream_stream_rpc_method_handler(self.sample_stream),
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(
                self.get_server_info,
                sampling_pb2.GetServerInfoRequest.FromString,
                sampling_pb2.GetServerInfoResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

    async def _receive(self, context: Context) -> SampleMessage:
        raw = await receive(context, self.sampler.admission, self.receiving)
        try:
            return read_request(raw)
        except DecodeError as error:
            raise rpc.parse_error(raw) from error

    async def _answer_in_stream(
        self, context: Context, request_id: str, index: int, raw: bytes, arrived: float
    ) -> list[Buffer]:
        response = sampling_pb2.SampleStreamResponse
        call.fork(request_index=index)
        head = response(request_index=index).SerializeToString()
        try:
            try:
                message = read_stream_request(raw)[0]
            except DecodeError as error:
                raise rpc.parse_error(raw) from error
            chunks = await self.sampler.answer(message, context.time_remaining(), arrived)
        except Exception as error:
            rpc.log_end(arrived, error)
            clear_tracebacks(error)
            return [head, response(error=status_of(error, request_id)).SerializeToString()]
        rpc.log_end(arrived)
        return [head, *nested(response.RESPONSE_FIELD_NUMBER, chunks)]
