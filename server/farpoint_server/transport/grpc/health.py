"""grpc.health.v1 servicer: Check and Watch, for the whole server ("") and for each service."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from farpoint_server.errors import quoted
from farpoint_server.transport.grpc.handlers import Context, Methods

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Health of services, NOT_SERVING at first.

    grpcio's own servicer forgets all watchers of a service when one of them leaves.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._status = dict.fromkeys(("", *services), NOT_SERVING)
        self._serving = False
        self._troubles: set[str] = set()
        self._changed = asyncio.Event()

    def set_all(self, serving: bool) -> None:
        """Sets every service's status and notifies all watchers."""
        self._serving = serving
        self._publish()

    def report(self, source: str, *, healthy: bool) -> None:
        """Sets the health of a source; while one is unhealthy, nothing is SERVING."""
        (self._troubles.discard if healthy else self._troubles.add)(source)
        self._publish()

    def knows(self, service: str) -> bool:
        """Whether there is such a service."""
        return service in self._status

    def know(self, service: str) -> None:
        """Adds a service with the status of the others."""
        self._status.setdefault(service, NOT_SERVING)
        self._publish()

    def forget(self, service: str) -> None:
        """Removes a service; its watchers get SERVICE_UNKNOWN."""
        self._status.pop(service, None)
        self._publish()

    def _publish(self) -> None:
        status = SERVING if self._serving and not self._troubles else NOT_SERVING
        self._status = dict.fromkeys(self._status, status)
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in self._status:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {quoted(request.service)}")
        return health_pb2.HealthCheckResponse(status=self._status[request.service])

    async def Watch(  # noqa: N802
        self,
        request: health_pb2.HealthCheckRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        sent: int | None = None
        while True:
            while self._of(request.service) == sent:
                await self._changed.wait()
            sent = self._of(request.service)
            yield health_pb2.HealthCheckResponse(status=sent)

    def is_well(self, but: str) -> bool:
        """Whether the server would be SERVING if a source were healthy."""
        return self._serving and self._troubles <= {but}

    @property
    def is_serving(self) -> bool:
        """Whether the server as a whole is SERVING."""
        return self._of("") == int(SERVING)

    def _of(self, service: str) -> int:
        return int(self._status.get(service, SERVICE_UNKNOWN))

    def methods(self) -> Methods:
        """Handlers of all methods."""
        read = health_pb2.HealthCheckRequest.FromString
        write = health_pb2.HealthCheckResponse.SerializeToString
        return {
            "Check": grpc.unary_unary_rpc_method_handler(self.Check, read, write),
            "Watch": grpc.unary_stream_rpc_method_handler(self.Watch, read, write),
        }
