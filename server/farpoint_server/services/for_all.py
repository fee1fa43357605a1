"""Methods that one process answers for all processes of a server.

State across calls is listed in docs/decisions/0016; what is added there needs a line here.
"""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message

from farpoint_server.services.methods import Handler
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.peers import Peers

# Seconds between two attempts to take the lock that another process holds.
LOCK_POLL_S = 0.02
Merge = Callable[[Mapping[int, Any]], Message]
"""One answer of those of all processes by index, this one's first."""


def _first(answers: Mapping[int, Any]) -> Any:
    """The answer of processes that all answer the same."""
    return next(iter(answers.values()))


def _memory(answers: Mapping[int, Any]) -> Any:
    merged = _by_process(answers, "devices")
    merged.resident_bytes = sum(answer.resident_bytes for answer in answers.values())
    return merged


def _trims(answers: Mapping[int, Any]) -> Any:
    return _by_process(answers, "trims")


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
    "/farpoint.v1.AdminService/TrimMemory": ForAll(_trims, changes=True),
    "/farpoint.v1.AdminService/LoadModel": CHANGES_MODELS,
    "/farpoint.v1.AdminService/UnloadModel": CHANGES_MODELS,
    "/inference.GRPCInferenceService/RepositoryModelLoad": CHANGES_MODELS,
    "/inference.GRPCInferenceService/RepositoryModelUnload": CHANGES_MODELS,
}
CHANGING = frozenset(path for path, method in METHODS.items() if method.changes)


def answer_for_all(peers: Peers, index: int, lock: Path, path: str, handler: Handler) -> Handler:
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
                others = await peers.tell(path, data, context.time_remaining())
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
