"""gRPC servicer of farpoint.v1.SamplingService; its RPCs on models are in encoding.py."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc

from farpoint.v1 import sampling_pb2
from farpoint_server.errors import DrainingError
from farpoint_server.services import upload
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.services.stream import SampleStream
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.http.calls import HandlerRegistry
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing

SERVICE = sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"].full_name


@dataclass(frozen=True)
class SamplingServicer:
    """Answers requests through the handler, and GetServerInfo with what it was given.

    Not a generated servicer, whose messages are parsed before it sees them: the handler reads
    them from the context as bytes (see codec/wire.py), and only when there is room for them.
    """

    handler: SampleHandler
    in_flight: InFlight
    info: sampling_pb2.GetServerInfoResponse
    outgoing: Outgoing
    idle_s: float

    async def sample_stream(self, _: object, context: Context) -> None:
        """SampleStream."""
        stream = SampleStream(context, self.handler, self.outgoing, self.idle_s)
        if not await stream.run(self.in_flight.draining):
            raise DrainingError("the server is shutting down")

    def sample_large(self, _: object, context: Context) -> Awaitable[bytes]:
        """SampleLarge."""
        return upload.handle(self.handler, context)

    async def get_server_info(
        self, _: sampling_pb2.GetServerInfoRequest, __: Context
    ) -> sampling_pb2.GetServerInfoResponse:
        """GetServerInfo."""
        return self.info

    def add_to(self, server: HandlerRegistry) -> None:
        """Registers the servicer. On the wire one message is a stream of one message."""
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Sample": grpc.stream_unary_rpc_method_handler(self.handler.handle),
            "SampleLarge": grpc.stream_unary_rpc_method_handler(self.sample_large),
            "SampleStream": grpc.stream_stream_rpc_method_handler(self.sample_stream),
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(
                self.get_server_info,
                sampling_pb2.GetServerInfoRequest.FromString,
                sampling_pb2.GetServerInfoResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
