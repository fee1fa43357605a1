"""This process as one of several of a server: calls to and from the others, and shared state."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CollectorRegistry, generate_latest

from farpoint_server.config.limits import DEFAULT
from farpoint_server.models.registry import Registry
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.services.for_all import CHANGING, answer_for_all
from farpoint_server.services.methods import Handler
from farpoint_server.services.registration import Servicers
from farpoint_server.transport.peers import SERVICE, Peers, PeerServer


class PeerProcesses:
    """The other processes of this server, if any.

    Args:
        slot: This process.
        registry: Its metrics.
    """

    def __init__(self, slot: ProcessSlot, registry: CollectorRegistry) -> None:
        self._slot, self._registry = slot, registry
        self._peers = Peers({index: slot.peer_address(index) for index in slot.others})
        self._server: PeerServer | None = None

    def register(self, servicers: Servicers, models: Registry) -> None:
        """Starts to answer the other processes."""
        if self._slot.is_alone:
            return
        server = PeerServer(self._slot.peer_address(self._slot.index), CHANGING)
        servicers.add_to_peers(server.registry)

        async def state() -> bytes:
            return json.dumps(_sources(models)).encode() if server.joined.is_set() else b""

        async def metrics() -> bytes:
            return await asyncio.to_thread(generate_latest, self._registry)

        methods: Mapping[str, Callable[[], Awaitable[bytes]]] = {
            "GetState": state,
            "GetMetrics": metrics,
        }
        server.add(methods)
        self._server = server

    def wrap(self, path: str, handler: Handler) -> Handler:
        """Wraps this process's handler of a path so that it answers for all processes."""
        if self._slot.is_alone:
            return handler
        slot = self._slot
        return answer_for_all(self._peers, slot.index, slot.folder / "lock", path, handler)

    async def start(self) -> list[str] | None:
        """Answers the others and returns their models; None if none of them serves yet."""
        if self._server is None:
            return None
        await self._server.start()
        states = (await self._peers.ask(f"/{SERVICE}/GetState")).values()
        state = next(filter(None, states), None)
        if state is None:
            return None
        models: list[str] = json.loads(state)
        return models

    def join(self) -> None:
        """Applies changes that arrived while the models were loaded."""
        if self._server is not None:
            self._server.joined.set()

    async def metrics(self) -> Mapping[int, str] | None:
        """The metrics of every process, by index; None if there is only one process."""
        if self._slot.is_alone:
            return None
        own = await asyncio.to_thread(generate_latest, self._registry)
        texts = {self._slot.index: own, **await self._peers.ask(f"/{SERVICE}/GetMetrics")}
        return {index: text.decode() for index, text in texts.items()}

    async def serve(self) -> bool:
        """Whether any of them is healthy."""
        return bool(self._peers) and await self._peers.serve()

    async def stop(self) -> None:
        """Stops answering the other processes."""
        if self._server is not None:
            await self._server.stop()


def _sources(models: Registry) -> list[str]:
    """The loaded models in the form of the setting `encoder`, for a new process."""
    sources = [(model.name, models.sources[model.name]) for model in models.models]
    return [DEFAULT if path is None else f"{name}={path}" for name, path in sources]
