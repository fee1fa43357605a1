"""Transports: the ports of gRPC and HTTP, shared memory, and the limits of all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from starlette.applications import Starlette
from starlette.routing import Route

from farpoint_server.codec.tensors import MAX_CLOUDS
from farpoint_server.config.settings import Settings
from farpoint_server.observability.metrics import CallMetrics
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.services.open_inference import rest
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.auth import Auth
from farpoint_server.transport.counts import Counts
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.grpc.server import GrpcServers
from farpoint_server.transport.http.exchange import BodyLimits
from farpoint_server.transport.http.server import HttpPort, HttpServer
from farpoint_server.transport.limits import CallLimits, InFlight
from farpoint_server.transport.outgoing import Outgoing
from farpoint_server.transport.shared_memory import SharedMemoryServer
from farpoint_server.transport.tokens import TokenFile
from farpoint_server.transport.tracing import Tracing, export_to


class Transport:
    """Receives calls and bounds them; servicers register at `servers` and `http`.

    Attributes:
        counts: What callers hold, of all front ends of this server.
        in_flight: Calls that are accepted and not answered.
        admission: What they may hold.
        outgoing: Responses that are not sent yet.
        threads: Where large messages are decoded and serialized.
        shared_memory: Of callers on this machine.
        servers: Of gRPC.
        http: The port of HTTP.
    """

    def __init__(self, settings: Settings, slot: ProcessSlot, metrics: CallMetrics) -> None:
        self.counts = counts = Counts() if slot.is_alone else Counts(slot.counts, slot.index)
        self.in_flight = InFlight()
        self.admission = admission = Admission(
            max_points=settings.max_points_in_flight,
            max_bytes=settings.max_bytes_in_flight,
            caller_share=settings.caller_share,
            counts=counts,
        )
        refused = metrics.count_refusal
        self.outgoing = Outgoing(admission, settings.send_timeout_s, count_refusal=refused)
        self.threads = ThreadPoolExecutor(2, "codec")
        self.shared_memory = SharedMemoryServer(settings)
        self._auth = Auth(TokenFile(settings.tokens_file)) if settings.tokens_file else None
        self._tracing = Tracing(export_to(url)) if (url := settings.otlp_endpoint) else None
        interceptor = self._make_interceptor(settings, metrics)
        self.servers = GrpcServers(settings, interceptor, is_first=slot.index == 0)
        bodies = BodyLimits(
            admission=admission,
            threads=self.threads,
            max_bytes=settings.max_message_bytes,
            clouds=MAX_CLOUDS,
        )
        self.http = HttpPort(settings, self.servers, bodies)
        is_shared = settings.process_count > 1
        self._probe = HttpServer("--probe-listen", settings.probe_listen, shared=is_shared)

    def _make_interceptor(self, settings: Settings, metrics: CallMetrics) -> RequestInterceptor:
        return RequestInterceptor(
            self.in_flight,
            metrics=metrics,
            limits=CallLimits(settings.max_concurrent_rpcs, settings.max_caller_rpcs, self.counts),
            outgoing=self.outgoing,
            auth=self._auth,
            tracing=self._tracing,
        )

    async def start(
        self,
        services: Sequence[ServiceDescriptor],
        metrics: Route,
        health: Sequence[Route],
        load: Callable[[], Awaitable[None]],
        warm: Callable[[], Awaitable[object]] | None,
    ) -> dict[str, Any]:
        """Opens every port; calls must be answerable.

        Args:
            services: That can be called over HTTP.
            metrics: At the port of HTTP.
            health: There and at the port of probes.
            load: Awaited when the ports of gRPC are known to be free.
            warm: Awaited after `load`, before any port opens; None to check the ports first.

        Returns:
            Addresses, for the log.
        """
        addresses = self.servers.bind() if warm is None else None
        self.shared_memory.start()
        await load()
        if warm is not None:
            await warm()
        addresses = addresses or self.servers.bind()
        if self._auth is not None:
            self._auth.start()
        await self.servers.start()
        routes = [metrics, *health, *rest.routes(self.http.exchange)]
        await self.http.serve(routes, services)
        await self._probe.start(Starlette(routes=health))
        return {
            "address": next(iter(addresses.public), None),
            "addresses": addresses.public,
            "admin_addresses": addresses.admin,
            "http_address": self.http.address,
            "probe_address": self._probe.address,
            "page": self.http.url if self.http.page else None,
            "shared_memory_address": self.shared_memory.address,
        }

    async def leave(self) -> None:
        """Accepts no more connections and tells each caller to leave its own."""
        await self.in_flight.hold()
        self.http.close_port()
        self.servers.leave()
        await asyncio.sleep(0)

    async def answer_all(self, *, refuse: bool) -> None:
        """Answers accepted calls, and those of HTTP connections that have been made.

        Args:
            refuse: Whether calls that still come are refused.
        """
        await self.in_flight.drain(refuse=refuse)
        await self.http.leave()
        await self.in_flight.drain(refuse=refuse)

    async def stop(self, grace_s: float) -> None:
        """Closes every connection and cancels unanswered calls."""
        await self.servers.stop(grace_s)
        if self._auth is not None:
            self._auth.stop()
        await self.http.stop()
        await self._probe.stop()
        self.shared_memory.stop()
        self.threads.shutdown(wait=False)
        if self._tracing:  # sends the traces that wait, which may take a second
            await asyncio.to_thread(self._tracing.stop)
