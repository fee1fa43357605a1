"""The RPCs that are answered through Ray, by their short names, as Ray Serve knows them."""

from dataclasses import dataclass

from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from farpoint.inference import open_inference_pb2
from farpoint.v1 import sampling_pb2

APPLICATION = "farpoint"
"""The name of the application, which calls that name none are for."""
TIMEOUT_KEY = "farpoint-timeout-ms"
"""Metadata in which a proxy hands on how long the caller will still wait."""

_SERVICES: tuple[ServiceDescriptor, ...] = (
    sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"],
    open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"],
    health_pb2.DESCRIPTOR.services_by_name["Health"],
)
# A watch lasts: it would hold a replica that is to go, and count as work for another one. Clients
# take a server that does not know it for healthy. A region of shared memory would be known to one
# replica and asked of another.
_LEFT_OUT = ("Watch", "Register", "Unregister")


@dataclass(frozen=True)
class Method:
    """One RPC.

    Attributes:
        service: Full name of its service.
        name: Without the service; no two of them have the same.
        reads_many: Whether the caller sends a stream.
        writes_many: Whether it is answered by one.
    """

    service: str
    name: str
    reads_many: bool
    writes_many: bool

    @property
    def path(self) -> str:
        """As gRPC names it."""
        return f"/{self.service}/{self.name}"


METHODS = tuple(
    Method(service.full_name, method.name, method.client_streaming, method.server_streaming)
    for service in _SERVICES
    for method in service.methods
    if not method.name.endswith(_LEFT_OUT)
)
assert len({method.name for method in METHODS}) == len(METHODS)
