"""The engine's process: the devices, models and queue of a server with several front ends."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client import generate_latest

from farpoint_server.app.compute import lost_before_signal, make_compute
from farpoint_server.app.owned import CHANGES_MODELS, METHODS
from farpoint_server.app.services import add_compute_gauges, health_names
from farpoint_server.compute.remote.server import ComputeServer, Handler
from farpoint_server.config.settings import Settings
from farpoint_server.errors import DeviceFailedError
from farpoint_server.kinds import wire
from farpoint_server.kinds.sample import SampleWork, one_point
from farpoint_server.models.registry import Registry
from farpoint_server.observability.metrics import Instruments, new_registry
from farpoint_server.processes.child import Link, on_end_signals
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.services import admin
from farpoint_server.transport.grpc.handlers import Method
from farpoint_server.transport.grpc.health import Health

# Seconds between two looks at what front ends must know.
LOOK_S = 0.25


class EngineApp:
    """Owns the devices for the front ends of one server.

    Raises:
        StartError: the settings do not fit this machine.
    """

    def __init__(self, settings: Settings, slot: ProcessSlot) -> None:
        self._settings, self._slot = settings, slot
        self._health = health = Health(health_names(settings))
        self._registry = registry = new_registry()
        self.compute = compute = make_compute(settings, health, Instruments(registry).batches_of)
        self._devices = compute.describe()
        self._models = models = Registry(compute.engines, health)
        add_compute_gauges(registry, compute)
        methods = admin.AdminServicer(compute, models).methods()
        self._link = Link(socket.socket(fileno=slot.link), lambda: health.is_serving)
        handlers: dict[str, Handler] = {
            path: partial(self._answer, methods[method.name], method.name)
            for path, method in METHODS.items()
        }
        self._server = ComputeServer(
            slot.engine,
            compute,
            wire,
            {**handlers, "metrics": self._metrics},
            self._state,
            gpu=next((each.index or 0 for each in compute.devices if each.type == "cuda"), None),
        )

    async def start(self, end: Callable[[signal.Signals], object]) -> None:
        """Loads the models and answers front ends, which then begin together.

        Signals call `end`, once the models are loaded.
        """
        self._link.start()
        await self.compute.warm_up(SampleWork(one_point()))
        named = (*self._settings.encoder, *self._settings.model)
        await self._models.load_all(named if self._slot.models is None else self._slot.models)
        self.compute.start()
        on_end_signals(end)
        self._health.set_all(serving=True)
        self._server.start()
        self._watching = asyncio.create_task(self._watch())
        await self._link.warm()
        self._link.ready({})

    async def stop(self) -> None:
        """Ends the connections of front ends, and the engines after their current batches."""
        self._watching.cancel()
        self._server.stop()
        await self.compute.stop()

    def _state(self) -> tuple[bytes, Mapping[int, Any]]:
        state = {
            "serving": self._health.is_serving,
            "devices": self._devices,
            "models": self._models.describe(),
        }
        return json.dumps(state).encode(), {each.number: each for each in self._models.models}

    async def _watch(self) -> None:
        """Publishes changes that no call has made."""
        known, _ = self._state()
        while True:
            await asyncio.sleep(LOOK_S)
            now, _ = self._state()
            if now != known:
                known = now
                await self._server.publish()

    async def _answer(self, handler: Method, name: str, data: bytes) -> bytes:
        """Answers a forwarded call; one that changes models, once all front ends know."""
        run: Any = handler
        response = await run.unary_unary(run.request_deserializer(data), None)
        if name in CHANGES_MODELS:
            self._link.models(self._models.specifications)
            await self._server.publish()
        answer: bytes = run.response_serializer(response)
        return answer

    async def _metrics(self, _: bytes) -> bytes:
        """The exposition of every process, by name."""
        texts = {str(name): text for name, text in (await self._server.ask_all("metrics")).items()}
        texts["engine"] = await asyncio.to_thread(generate_latest, self._registry)
        return json.dumps({name: text.decode() for name, text in texts.items()}).encode()


async def serve_engine(settings: Settings, slot: ProcessSlot) -> bool:
    """Serves the front ends until a signal, which comes when they have ended.

    Raises:
        StartError: the settings do not fit this machine.
        DeviceFailedError: no device works any more in this process.
    """
    signals: asyncio.Queue[int] = asyncio.Queue()
    app = EngineApp(settings, slot)
    await app.start(signals.put_nowait)
    is_lost = await lost_before_signal(app.compute, signals)
    await app.stop()
    if is_lost:
        raise DeviceFailedError("no device works")
    return True
