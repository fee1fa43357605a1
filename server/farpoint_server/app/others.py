"""This process as one of several of a server: calls to and from the others, and shared state.

docs/decisions/0016 lists the state across calls.
"""

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, generate_latest

from farpoint_server.app.services import Servicers
from farpoint_server.config.settings import DEFAULT
from farpoint_server.models.registry import Registry
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.transport.grpc.handlers import Context, Method
from farpoint_server.transport.peers import SERVICE, Peers, PeerServer

# Seconds between two attempts to take the lock that another process holds.
LOCK_POLL_S = 0.02
Merge = Callable[[Mapping[int, Any]], Message]
"""One answer of those of all processes by index, this one's first."""


def _first(answers: Mapping[int, Any]) -> Any:
    """The answer, if all processes give the same."""
    return next(iter(answers.values()))


def _memory(answers: Mapping[int, Any]) -> Any:
    merged = _by_process(answers, "devices")
    merged.resident_bytes = sum(answer.resident_bytes for answer in answers.values())
    return merged


def _by_process(answers: Mapping[int, Any], field: str) -> Any:
    """The entries of a field of all processes, each with the index of its process."""
    merged = type(_first(answers))()
    for index, answer in sorted(answers.items()):
        for entry in getattr(answer, field):
            entry.process = index
        merged.MergeFrom(answer)
    return merged


class ForAll(NamedTuple):
    """A method that is answered for all processes."""

    merge: Merge
    changes: bool = False
    """Whether it changes something."""
    in_order: bool = False
    """Whether its changes are made in the same order in every process."""


CHANGES_MODELS = ForAll(_first, changes=True, in_order=True)
METHODS: Mapping[str, ForAll] = {
    "/farpoint.v1.AdminService/GetMemory": ForAll(_memory),
    "/farpoint.v1.AdminService/TrimMemory": ForAll(
        partial(_by_process, field="trims"), changes=True
    ),
    "/farpoint.v1.AdminService/LoadModel": CHANGES_MODELS,
    "/farpoint.v1.AdminService/UnloadModel": CHANGES_MODELS,
    "/inference.GRPCInferenceService/RepositoryModelLoad": CHANGES_MODELS,
    "/inference.GRPCInferenceService/RepositoryModelUnload": CHANGES_MODELS,
}
CHANGING = frozenset(path for path, method in METHODS.items() if method.changes)


class PeerProcesses:
    """The other processes of this server, if any."""

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

        server.add({"GetState": state, "GetMetrics": metrics})
        self._server = server

    def wrap(self, path: str, handler: Method) -> Method:
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


def answer_for_all(peers: Peers, index: int, lock: Path, path: str, handler: Method) -> Method:
    """A handler that answers a method of METHODS for all processes; another as it is.

    This process answers first, so what it refuses reaches no other one. Changes in order hold
    `lock`, a file of all processes.
    """
    if path not in METHODS:
        return handler
    method = METHODS[path]
    answer: Any = handler.unary_unary

    async def answer_all(request: Message, context: Context) -> Message:
        async with _locked(lock) if method.in_order else nullcontext():
            own = await answer(request, context)
            data = request.SerializeToString()
            if method.changes:
                others = await peers.broadcast(path, data, context.time_remaining())
            else:
                others = await peers.ask(path, data)
        return method.merge(
            {index: own, **{i: type(own).FromString(raw) for i, raw in others.items()}}
        )

    return grpc.unary_unary_rpc_method_handler(
        answer_all, handler.request_deserializer, handler.response_serializer
    )


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Holds a lock that the kernel releases when its process ends."""
    with path.open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_POLL_S)
        yield
