"""The server: compute, transport and services; it serves until a signal, then drains."""

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from farpoint_server.app.compute import make_compute
from farpoint_server.app.others import PeerProcesses
from farpoint_server.app.services import SERVICES, add_gauges, health_names, make_services
from farpoint_server.app.transport import Transport
from farpoint_server.config.settings import Settings
from farpoint_server.errors import DeviceFailedError
from farpoint_server.kinds.sample import SampleWork, one_point
from farpoint_server.models.registry import Registry
from farpoint_server.observability.http import health_routes, metrics_route
from farpoint_server.observability.metrics import CallMetrics, Instruments
from farpoint_server.processes.child import Link, on_end_signals
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.transport.grpc.health import Health
from farpoint_server.transport.http.calls import UnaryCalls

# Seconds to send the refusals of the drain.
REFUSAL_S = 0.1
# Seconds for open calls when the last device is lost.
LOST_S = 5.0
log = structlog.get_logger("farpoint")


class App:
    """A server with all its components; create it while the event loop runs.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings, slot: ProcessSlot = ProcessSlot()) -> None:  # noqa: B008
        self._settings = settings
        self._health = health = Health(health_names(settings))
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._others = PeerProcesses(slot, registry)
        instruments = Instruments(registry)
        self.compute = compute = make_compute(settings, health, instruments.batches_of, slot)
        self._models = Registry(compute.engines, health)
        self._transport = transport = Transport(settings, slot, CallMetrics(instruments), compute)
        services = make_services(settings, compute, self._models, transport, health)
        services.add_to(transport.servers, self.calls, settings.admin_over_http, self._others.wrap)
        self._others.register(services, self._models)
        add_gauges(registry, compute, transport, health)

    @property
    def calls(self) -> UnaryCalls:
        """Runs calls that do not arrive at a port of the settings."""
        return self._transport.http.exchange.calls

    @property
    def is_serving(self) -> bool:
        """Whether this process is healthy."""
        return self._health.is_serving

    async def start(self, warm: Callable[[], Awaitable[object]] | None = None) -> dict[str, Any]:
        """Starts to serve.

        Args:
            warm: Awaited when all is ready, before any port is open; None to check them first.

        Returns:
            Addresses and devices, for the log.
        """
        metrics = metrics_route(self._registry, self._others.metrics)
        health = health_routes(self._serves)
        addresses = await self._transport.start(SERVICES, metrics, health, self._load, warm)
        self._health.set_all(serving=True)
        return {**addresses, "device": ", ".join(map(str, self.compute.devices))}

    async def _serves(self) -> bool:
        """Whether this process or another one is healthy."""
        return self.is_serving or await self._others.serve()

    async def _load(self) -> None:
        """Loads the models of the other processes, or those of the settings."""
        models = await self._others.start()
        named = (*self._settings.encoder, *self._settings.model)
        await self.compute.warm_up(SampleWork(one_point()))
        await self._models.load_all(named if models is None else models)
        self.compute.start()
        self._others.join()

    async def drain(self) -> bool:
        """Stops accepting connections, answers calls; whether all were answered in time.

        First health tells load balancers, then each connection its caller, to go elsewhere.
        """
        log.info("draining", calls=self._transport.in_flight.calls)
        self._health.set_all(serving=False)
        self._transport.close_after_answers()
        await asyncio.sleep(self._settings.drain_grace_s)
        await self._transport.leave()
        return await self.answer_all(self._settings.drain_timeout_s)

    async def answer_all(self, timeout_s: float, *, refuse: bool = False) -> bool:
        """Waits for accepted calls, perhaps refusing others; whether all were answered in time."""
        try:
            await asyncio.wait_for(self._transport.answer_all(refuse=refuse), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    async def stop(self, grace_s: float) -> bool:
        """Closes every connection and cancels unanswered calls.

        Returns whether there were none of these.
        """
        unanswered = self._transport.in_flight.calls
        await self._transport.stop(grace_s)
        await self._others.stop()
        await self.compute.stop()
        (log.warning if unanswered else log.info)("stopped", unanswered=unanswered)
        return not unanswered


async def serve(settings: Settings, slot: ProcessSlot) -> bool:
    """Serves until a signal; returns whether every accepted call was answered.

    Raises:
        StartError: the settings do not fit this machine.
        DeviceFailedError: a device, the scheduler or the memory monitor no longer works in this
            process.
    """
    signals: asyncio.Queue[int] = asyncio.Queue()
    on_end_signals(signals.put_nowait)
    app = App(settings, slot)
    link = None if slot.is_alone else Link(socket.socket(fileno=slot.link), lambda: app.is_serving)
    if link is None:
        log.info("ready", **await app.start())
    else:
        link.start()
        link.ready(await app.start(link.warm))
    # Objects of torch and other libraries stay: the collector need not traverse them again.
    gc.collect()
    gc.freeze()
    gc.enable()
    signalled = asyncio.ensure_future(signals.get())
    lost = asyncio.ensure_future(app.compute.lost())
    await asyncio.wait((signalled, lost), return_when=asyncio.FIRST_COMPLETED)
    if not signalled.done():
        reason = lost.result()
        log.error(reason, exit_status=3)
        await app.answer_all(LOST_S, refuse=True)
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
