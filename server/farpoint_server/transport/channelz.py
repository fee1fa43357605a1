"""grpc.channelz.v1: the connections and calls of this process, for debugging."""

import grpc
from grpc_channelz.v1 import channelz, channelz_pb2  # type: ignore[import-untyped]

DESCRIPTOR = channelz_pb2.DESCRIPTOR.services_by_name["Channelz"]


def add_to(server: grpc.aio.Server) -> None:
    """Registers the servicer. It shows the addresses of peers, so it belongs to the admin port."""
    channelz.add_channelz_servicer(server)
