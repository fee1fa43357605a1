"""The server process: its parts are made and joined here; it serves until a signal, then drains."""

import asyncio
import gc
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import structlog
import torch

from farpoint.v1 import sampling_pb2
from farpoint_server import version
from farpoint_server.codec.open_inference.posix_memory import PosixMemory
from farpoint_server.codec.sample_request import METHODS
from farpoint_server.codec.tensors import POINT_TYPES
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.config.settings import Settings
from farpoint_server.engine import devices
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.priority import background_threads
from farpoint_server.errors import DeviceFailedError
from farpoint_server.memory import environment
from farpoint_server.memory.monitor import MemoryMonitor
from farpoint_server.memory.options import manager_of
from farpoint_server.memory.trimmer import Gate
from farpoint_server.models.registry import Registry
from farpoint_server.observability.metrics.instruments import GAUGES
from farpoint_server.observability.metrics.memory import MemoryCollector
from farpoint_server.observability.setup import Telemetry
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.scheduling.lane import BatchMetrics
from farpoint_server.scheduling.watchdog import Watchdog
from farpoint_server.services import registration as services
from farpoint_server.services.admin import AdminServicer
from farpoint_server.services.encode_handler import EncodeHandler
from farpoint_server.services.encoding import EncodingServicer
from farpoint_server.services.model_statistics import ModelStatistics
from farpoint_server.services.open_inference import rest
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.services.open_inference.repository import ModelRepository
from farpoint_server.services.open_inference.servicer import OpenInferenceServicer
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.services.sampling import SamplingServicer
from farpoint_server.transport.health import Health
from farpoint_server.transport.http.body import BodyLimits
from farpoint_server.transport.http.port import HttpPort
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits.open_calls import InFlight, Outgoing
from farpoint_server.transport.limits.slots import CallLimits
from farpoint_server.transport.receive import ReceiveTurns
from farpoint_server.transport.server import GrpcServers
from farpoint_server.transport.shared_memory import SharedMemoryServer

# What was refused while draining is not waited for by itself; its answer leaves in this time.
REFUSAL_S = 0.1
log = structlog.get_logger("farpoint")


class App:
    """A server and all that it holds; make it with the event loop running.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        chosen = [devices.resolve(name) for name in settings.device]
        self._allocator_settings = os.environ.get(environment.NAME, "")
        self._engines = self._make_engines(chosen)
        background = [e.background for e in self._engines if e.background is not None]
        lanes = 2 if background else 1
        self._watchdog = Watchdog(
            settings.engine_timeout_s, len(chosen), self._report_engines, lanes
        )
        self._health = Health(services.health_names(settings))
        self._telemetry = Telemetry(settings, lambda: self._health.is_serving)
        long_ns = int(settings.long_work_ms * 1e6)
        is_cpu = all(device.type == "cpu" for device in chosen)
        instruments = self._telemetry.instruments
        self._batcher = Batcher(
            self._engines,
            settings.batch_points,
            self._watchdog,
            background=background,
            long_ns=long_ns,
            batch_ns=long_ns if long_ns and is_cpu else None,
            metrics=BatchMetrics(
                instruments.batch_requests.observe, instruments.batch_points.observe
            ),
        )
        self._threads = ThreadPoolExecutor(2, "codec")
        self._in_flight = InFlight()
        self._shared_memory = SharedMemoryServer(settings)
        self._monitor = MemoryMonitor(
            self._engines,
            lambda: self._batcher.waiting_requests,
            lambda healthy: self._health.report("memory", healthy=healthy),
            structlog.get_logger("farpoint.memory").error,
        )
        self._models = Registry(self._engines, self._health)
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
        self._register(chosen)

    async def start(self) -> None:
        """Serves from now on."""
        addresses = self._servers.bind()
        self._shared_memory.start()
        for engine in self._engines:
            await engine.start()
        await self._models.load_all(self._settings.encoder)
        self._batcher.start()
        self._monitor.start()
        await self._servers.start()
        routes = [*self._telemetry.routes, *rest.routes(self._http.exchange)]
        await self._http.start(routes, services.SERVICES)
        await self._health.set_all(serving=True)
        names = ", ".join(str(engine.device) for engine in self._engines)
        log.info(
            "ready",
            address=addresses.public[0],
            addresses=addresses.public,
            admin_addresses=addresses.admin,
            http_address=self._http.address,
            page=self._http.url,
            shared_memory_address=self._shared_memory.address,
            device=names,
        )

    async def lost(self) -> str:
        """Returns, with the reason, once only a new process can help."""
        device = asyncio.ensure_future(self._monitor.lost())
        worker = asyncio.ensure_future(self._batcher.died())
        try:
            await asyncio.wait((device, worker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            device.cancel()
            worker.cancel()
        if device.done():
            return device.result()
        await self._health.report("scheduler", healthy=False)
        return "scheduler failed"

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
        await self._monitor.stop()
        await self._batcher.stop()
        for engine in self._engines:
            engine.stop()
        self._threads.shutdown(wait=False)
        await self._telemetry.stop()
        (log.warning if unanswered else log.info)("stopped", unanswered=unanswered)
        return not unanswered

    def _make_engines(self, chosen: Sequence[torch.device]) -> list[Engine]:
        threads = self._settings.cpu_threads or devices.cores_each(chosen)
        # That of the calling thread: small work runs on the event loop itself.
        torch.set_num_threads(threads)
        gate, options = Gate(), self._settings.memory_options()
        report = structlog.get_logger("farpoint.memory").info
        engines = []
        for device in chosen:
            memory = manager_of(device, options, gate, self._allocator_settings, report)
            background = None
            if self._settings.long_work_ms > 0:
                most = background_threads(threads)
                background = Engine(device, most, memory, is_background=True)
            engines.append(Engine(device, threads, memory, background=background))
        return engines

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

    def _report_engines(self, healthy: bool) -> None:
        self._health.report_soon("engines", healthy=healthy)

    def _register(self, chosen: Sequence[torch.device]) -> None:
        settings = self._settings
        limits = RequestLimits(
            settings.max_message_bytes, settings.max_request_points, settings.max_request_clouds
        )
        receiving = ReceiveTurns(settings.receive_turns)
        shared = (self._admission, receiving, self._batcher)
        statistics = ModelStatistics()
        sample_handler = SampleHandler(
            limits, *shared, self._engines, self._threads, self._shared_memory.regions, statistics
        )
        encode_limits = replace(limits, points=min(limits.points, settings.max_encode_points))
        encode_handler = EncodeHandler(
            encode_limits, *shared, self._models, self._threads, self._engines, statistics
        )
        infer_handler = InferHandler(
            sample_handler,
            encode_handler,
            ModelRepository(self._models, statistics, chosen, lambda: self._health.is_serving),
            PosixMemory(settings.system_shared_memory_prefix, settings.max_bytes_in_flight),
        )
        services.Servicers(
            SamplingServicer(
                sample_handler,
                self._in_flight,
                _info(limits, chosen),
                self._outgoing,
                settings.idle_timeout_s,
            ),
            EncodingServicer(encode_handler),
            OpenInferenceServicer(
                infer_handler, self._in_flight, self._outgoing, settings.idle_timeout_s
            ),
            AdminServicer(self._monitor, self._models, self._allocator_settings),
            self._health,
        ).add_to(self._servers, self._http.exchange.calls, settings.admin_over_http)
        self._show_state()

    def _show_state(self) -> None:
        admission, batcher = self._admission, self._batcher
        in_flight, regions = self._in_flight, self._shared_memory.regions
        for name, read in (
            ("serving", lambda: self._health.is_serving),
            ("calls", lambda: in_flight.calls),
            ("points_in_flight", lambda: admission.points),
            ("bytes_in_flight", lambda: admission.bytes),
            ("queue_requests", lambda: batcher.waiting_requests),
            ("queue_points", lambda: batcher.waiting_points),
            ("queue_seconds", lambda: batcher.waiting_s),
            ("shared_memory_bytes", lambda: regions.size),
        ):
            self._telemetry.add_gauge(f"farpoint_{name}", GAUGES[name], read)
        self._telemetry.add_collector(
            MemoryCollector(lambda: [engine.memory.snapshot for engine in self._engines])
        )


async def serve(settings: Settings) -> bool:
    """Serves until a signal of `_signals`; returns whether every accepted call was answered.

    Raises:
        StartError: the settings do not fit this machine.
        DeviceFailedError: a device, the scheduler or the memory monitor works no more in this
            process.
    """
    signals = _signals()
    app = App(settings)
    await app.start()
    # What torch and the libraries have made by now stays, and is not looked through ever again.
    gc.collect()
    gc.freeze()
    told, lost = asyncio.ensure_future(signals.get()), asyncio.ensure_future(app.lost())
    await asyncio.wait((told, lost), return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        reason = lost.result()
        log.error(reason, exit_status=3)
        await app.stop(REFUSAL_S)
        raise DeviceFailedError(reason)
    lost.cancel()
    drained = asyncio.ensure_future(app.drain())
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait((drained, again), return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    complete = drained.done() and drained.result()
    drained.cancel()
    return await app.stop(REFUSAL_S if complete else 0)


def _signals() -> asyncio.Queue[signal.Signals]:
    """Where each SIGTERM, SIGINT and SIGHUP arrives; nohup's wish to ignore the last is kept."""
    queue: asyncio.Queue[signal.Signals] = asyncio.Queue()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, queue.put_nowait, number)
    return queue


def _info(
    limits: RequestLimits, chosen: Sequence[torch.device]
) -> sampling_pb2.GetServerInfoResponse:
    return sampling_pb2.GetServerInfoResponse(
        version=version(),
        devices=[
            sampling_pb2.Device(name=str(device), description=devices.describe(device))
            for device in chosen
        ],
        methods=METHODS,
        point_types=POINT_TYPES,
        limits=sampling_pb2.Limits(
            message_bytes=limits.message_bytes,
            request_points=limits.points,
            request_clouds=limits.clouds,
        ),
        torch_version=torch.__version__,
    )
