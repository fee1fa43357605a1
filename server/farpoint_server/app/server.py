"""The server: compute, transport and services; it serves until a signal, then drains."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from prometheus_client import generate_latest

from farpoint_server.app.compute import lost_before_signal, make_compute, make_remote_compute
from farpoint_server.app.services import (
    SERVICES,
    add_compute_gauges,
    add_gauges,
    health_names,
    make_services,
)
from farpoint_server.app.transport import Transport
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.compute.remote.server import Handler
from farpoint_server.config.settings import Settings
from farpoint_server.errors import DeviceFailedError
from farpoint_server.kinds.sample import SampleWork, one_point
from farpoint_server.models.registry import Registry
from farpoint_server.observability.http import health_routes, metrics_route
from farpoint_server.observability.metrics import CallMetrics, Instruments, new_registry
from farpoint_server.processes.child import Link, on_end_signals
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.transport.grpc.health import Health

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

    def __init__(self, settings: Settings, slot: ProcessSlot) -> None:
        self._settings, self._slot = settings, slot
        self._health = health = Health(health_names(settings))
        self._registry = registry = new_registry()
        instruments = Instruments(registry)
        self.compute, self._engine = compute, engine = self._make_compute(instruments, slot)
        self._models = Registry(compute.engines, health)
        self._transport = transport = Transport(settings, slot, CallMetrics(instruments))
        services = make_services(settings, compute, self._models, transport, health, engine)
        services.add_to(transport.servers, transport.http.exchange.calls, settings.admin_over_http)
        add_gauges(registry, transport, health)
        add_compute_gauges(registry, compute)

    async def start(self, end: Callable[[signal.Signals], object]) -> None:
        """Starts to serve, as a front end together with the others; signals call `end`."""
        link, warm = None, None
        if self._slot.is_alone:
            on_end_signals(end)
        else:
            # Healthy, or only without an engine for now.
            is_well = partial(self._health.is_well, but="engine")
            link = Link(socket.socket(fileno=self._slot.link), is_well)
            link.start()
            warm = partial(self._wait_for_others, link, end)
        metrics = metrics_route(self._registry, self._all_metrics)
        health = health_routes(lambda: self._health.is_serving)
        addresses = await self._transport.start(SERVICES, metrics, health, self._load, warm)
        self._health.set_all(serving=True)
        fields = {**addresses, "device": ", ".join(map(str, self.compute.devices))}
        if link is None:
            log.info("ready", **fields)
        else:
            link.ready(fields)

    async def _wait_for_others(self, link: Link, end: Callable[[signal.Signals], object]) -> None:
        # Until then a signal ends a process that waits for the engine.
        on_end_signals(end)
        await link.warm()

    def _make_compute(
        self, instruments: Instruments, slot: ProcessSlot
    ) -> tuple[Compute, RemoteCompute | None]:
        """The compute of this process, and the same if another process runs the devices."""
        settings, health, metrics = self._settings, self._health, instruments.batches_of
        if slot.is_alone:
            return make_compute(settings, health, metrics), None
        handlers: dict[str, Handler] = {"state": self._take_state, "metrics": self._own_metrics}
        remote = make_remote_compute(settings, health, metrics, slot, handlers)
        return remote, remote

    async def _take_state(self, data: bytes) -> bytes:
        assert self._engine is not None
        self._models.adopt(json.loads(data)["models"], self._engine.drop_model)
        return b""

    async def _own_metrics(self, _: bytes = b"") -> bytes:
        return await asyncio.to_thread(generate_latest, self._registry)

    async def _all_metrics(self) -> Mapping[str, str] | None:
        """The metrics of every process, by name; None if there is only one process."""
        if self._engine is None:
            return None
        try:
            texts: Mapping[str, str] = json.loads(await self._engine.ask("metrics"))
        except DeviceFailedError:  # it is being replaced
            return {str(self._slot.name): (await self._own_metrics()).decode()}
        return texts

    async def _load(self) -> None:
        """Loads the models of the settings, or waits for the engine, which has."""
        await self.compute.warm_up(SampleWork(one_point()))
        if self._engine is None:
            await self._models.load_all((*self._settings.encoder, *self._settings.model))
        else:
            await self._engine.connect()
        self.compute.start()

    async def drain(self) -> bool:
        """Stops accepting connections, answers calls; whether all were answered in time.

        First health tells load balancers, then each connection its caller, to go elsewhere.
        """
        log.info("draining", calls=self._transport.in_flight.calls)
        self._health.set_all(serving=False)
        self._transport.http.close_after_answers()
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
        await self.compute.stop()
        (log.warning if unanswered else log.info)("stopped", unanswered=unanswered)
        return not unanswered


async def serve(settings: Settings, slot: ProcessSlot) -> bool:
    """Serves until a signal; returns whether every accepted call was answered.

    Raises:
        StartError: the settings do not fit this machine.
        DeviceFailedError: no device works any more in this process.
    """
    signals: asyncio.Queue[int] = asyncio.Queue()
    app = App(settings, slot)
    await app.start(signals.put_nowait)
    if await lost_before_signal(app.compute, signals):
        await app.answer_all(LOST_S, refuse=True)
        await app.stop(REFUSAL_S)
        raise DeviceFailedError("no device works")
    drained = asyncio.ensure_future(app.drain())
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait((drained, again), return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    complete = drained.done() and drained.result()
    drained.cancel()
    return await app.stop(REFUSAL_S if complete else 0)
