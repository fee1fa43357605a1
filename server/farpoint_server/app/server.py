"""The server: what computes and how calls get in, made of the settings and joined."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import structlog

from farpoint_server.app.compute import Compute
from farpoint_server.app.servicers import Parts, make_servicers
from farpoint_server.config.settings import Settings
from farpoint_server.observability.metrics.instruments import GAUGES
from farpoint_server.observability.metrics.memory import MemoryCollector
from farpoint_server.observability.setup import Telemetry
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.lane import BatchMetrics
from farpoint_server.services import registration as services
from farpoint_server.services.open_inference import rest
from farpoint_server.transport.health import Health
from farpoint_server.transport.http.body import BodyLimits
from farpoint_server.transport.http.calls import UnaryCalls
from farpoint_server.transport.http.port import HttpPort
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing
from farpoint_server.transport.limits.slots import CallLimits
from farpoint_server.transport.server import GrpcServers
from farpoint_server.transport.shared_memory import SharedMemoryServer

log = structlog.get_logger("farpoint")


class App:
    """A server and all that it holds; make it with the event loop running.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._health = Health(services.health_names(settings))
        self._telemetry = Telemetry(settings, lambda: self._health.is_serving)
        observed = self._telemetry.instruments
        self._compute = Compute(
            settings,
            self._health,
            BatchMetrics(observed.batch_requests.observe, observed.batch_points.observe),
        )
        self._threads = ThreadPoolExecutor(2, "codec")
        self._in_flight = InFlight()
        self._shared_memory = SharedMemoryServer(settings)
        self._admission = Admission(
            settings.max_points_in_flight,
            settings.max_bytes_in_flight,
            settings.overload_retry_ms,
            settings.caller_share,
        )
        self._outgoing = Outgoing(
            self._admission,
            settings.send_timeout_s,
            count_refusal=self._telemetry.calls.count_refusal,
        )
        self._servers = GrpcServers(settings, self._make_interceptors())
        bodies = BodyLimits(
            self._admission,
            self._threads,
            settings.max_message_bytes,
            settings.max_request_clouds,
            gzip=settings.compression == "on",
        )
        self._http = HttpPort(settings, self._servers, bodies)
        self._register()
        self._show_state()

    @property
    def calls(self) -> UnaryCalls:
        """Runs calls that come in otherwise than over a port of the settings."""
        return self._http.exchange.calls

    @property
    def is_serving(self) -> bool:
        """Whether health says so."""
        return self._health.is_serving

    async def start(self) -> None:
        """Serves from now on."""
        addresses = self._servers.bind()
        self._shared_memory.start()
        await self._compute.start()
        await self._servers.start()
        routes = [*self._telemetry.routes, *rest.routes(self._http.exchange)]
        await self._http.start(routes, services.SERVICES)
        await self._health.set_all(serving=True)
        log.info(
            "ready",
            address=next(iter(addresses.public), None),
            addresses=addresses.public,
            admin_addresses=addresses.admin,
            http_address=self._http.address,
            page=self._http.url,
            shared_memory_address=self._shared_memory.address,
            device=", ".join(map(str, self._compute.devices)),
        )

    async def lost(self) -> str:
        """Returns, with the reason, once only a new process can help."""
        return await self._compute.lost()

    async def drain(self) -> bool:
        """Stops accepting calls, waits for those accepted; whether all were answered in time."""
        log.info("draining", calls=self._in_flight.calls)
        await self._health.set_all(serving=False)
        await asyncio.sleep(self._settings.drain_grace_s)
        try:
            await asyncio.wait_for(self._in_flight.drain(), self._settings.drain_timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    async def stop(self, grace_s: float) -> bool:
        """Closes every connection; calls that are not answered by now are cancelled.

        Returns whether there were none of these.
        """
        unanswered = self._in_flight.calls
        await self._servers.stop(grace_s)
        await self._http.stop()
        self._shared_memory.stop()
        await self._compute.stop()
        self._threads.shutdown(wait=False)
        await self._telemetry.stop()
        (log.warning if unanswered else log.info)("stopped", unanswered=unanswered)
        return not unanswered

    def _make_interceptors(self) -> Sequence[grpc.aio.ServerInterceptor]:
        """Those of all calls, the outermost first."""
        settings = self._settings
        limits = CallLimits(
            settings.max_concurrent_rpcs, settings.max_caller_rpcs, settings.overload_retry_ms
        )
        requests = RequestInterceptor(
            self._in_flight, self._telemetry.calls, limits, self._outgoing, settings.idle_timeout_s
        )
        return [*self._telemetry.interceptors, requests]

    def _register(self) -> None:
        parts = Parts(
            self._settings,
            self._compute,
            self._admission,
            self._in_flight,
            self._outgoing,
            self._threads,
            self._shared_memory.regions,
            self._health,
        )
        calls, over_http = self._http.exchange.calls, self._settings.admin_over_http
        make_servicers(parts).add_to(self._servers, calls, over_http)

    def _show_state(self) -> None:
        admission, batcher = self._admission, self._compute.batcher
        in_flight, regions = self._in_flight, self._shared_memory.regions
        for name, read in (
            ("serving", lambda: self._health.is_serving),
            ("calls", lambda: in_flight.calls),
            ("points_in_flight", lambda: admission.points),
            ("bytes_in_flight", lambda: admission.bytes),
            ("queue_requests", lambda: batcher.waiting_requests),
            ("queue_points", lambda: batcher.waiting_points),
            ("shared_memory_bytes", lambda: regions.size),
        ):
            self._telemetry.add_gauge(f"farpoint_{name}", GAUGES[name], read)
        engines = self._compute.engines
        self._telemetry.add_collector(
            MemoryCollector(lambda: [engine.memory.snapshot for engine in engines])
        )
