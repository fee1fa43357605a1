"""The server: what computes and how calls get in, made of the settings and joined."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import structlog
from starlette.applications import Starlette

from farpoint_server.app.compute import Compute
from farpoint_server.app.gauges import show_state
from farpoint_server.app.others import OtherProcesses
from farpoint_server.app.servicers import Parts, make_servicers
from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.observability.setup import Telemetry
from farpoint_server.processes.place import Place
from farpoint_server.request_context import Fields
from farpoint_server.scheduling.admission import Admission
from farpoint_server.services import registration as services
from farpoint_server.services.open_inference import rest
from farpoint_server.transport.health import Health
from farpoint_server.transport.http.body import BodyLimits
from farpoint_server.transport.http.calls import UnaryCalls
from farpoint_server.transport.http.port import HttpPort
from farpoint_server.transport.http.server import HttpServer
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing
from farpoint_server.transport.limits.slots import CallLimits
from farpoint_server.transport.load_report import LoadReport
from farpoint_server.transport.server import GrpcServers
from farpoint_server.transport.shared_memory import SharedMemoryServer

log = structlog.get_logger("farpoint")


class App:
    """A server and all that it holds; make it with the event loop running.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings, place: Place = Place()) -> None:  # noqa: B008
        self._settings, self._place = settings, place
        self._health = Health(services.health_names(settings))
        self._others = OtherProcesses(place)
        self._telemetry = Telemetry(settings, lambda: self.is_serving, self._others)
        metrics = self._telemetry.instruments.batches_of
        self._compute = Compute(settings, self._health, metrics, place)
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
        self._servers = GrpcServers(settings, self._make_interceptors(), is_first=place.index == 0)
        bodies = BodyLimits(
            self._admission,
            self._threads,
            settings.max_message_bytes,
            settings.max_request_clouds,
            gzip=settings.compression == "on",
        )
        self._http = HttpPort(settings, self._servers, bodies)
        self._probe = HttpServer(
            "--probe-listen", settings.probe_listen, shared=settings.process_count > 1
        )
        self._register()

    @property
    def calls(self) -> UnaryCalls:
        """Runs calls that come in otherwise than over a port of the settings."""
        return self._http.exchange.calls

    @property
    def is_serving(self) -> bool:
        """Whether this process is healthy."""
        return self._health.is_serving

    async def start(self, warm: Callable[[], Awaitable[object]] | None = None) -> Fields:
        """Serves from now on.

        Args:
            warm: Awaited when all is ready, before any port is open; None to check them first.

        Returns:
            Addresses and devices, for the log.
        """
        addresses = self._servers.bind() if warm is None else None
        self._shared_memory.start()
        models = await self._others.start()
        named = (*self._settings.encoder, *self._settings.model)
        await self._compute.start(named if models is None else models)
        self._others.join()
        if warm is not None:
            await warm()
        addresses = addresses or self._servers.bind()
        await self._servers.start()
        routes = [*self._telemetry.routes, *rest.routes(self._http.exchange)]
        await self._http.serve(routes, services.SERVICES)
        await self._probe.start(Starlette(routes=self._telemetry.health_routes))
        await self._health.set_all(serving=True)
        return {
            "address": next(iter(addresses.public), None),
            "addresses": addresses.public,
            "admin_addresses": addresses.admin,
            "http_address": self._http.address,
            "probe_address": self._probe.address,
            "page": self._http.url if self._http.page.is_there else None,
            "shared_memory_address": self._shared_memory.address,
            "device": ", ".join(map(str, self._compute.devices)),
        }

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
        await self._probe.stop()
        await self._others.stop()
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
        load = None
        if settings.load_reports == "on":
            cores = max(1, devices.available_cores() // self._place.count)
            load = LoadReport(self._compute.busy_s, cores)
        requests = RequestInterceptor(
            *(self._in_flight, self._telemetry.calls, limits, self._outgoing),
            *(settings.idle_timeout_s, load),
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
        servicers = make_servicers(parts)
        servicers.add_to(self._servers, calls, over_http, self._others.wrap)
        self._others.register(servicers, self._compute.models, self._telemetry.exposition)
        show_state(self._telemetry, parts)
