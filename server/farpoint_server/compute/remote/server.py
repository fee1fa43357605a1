"""The engine's end: answers the front ends of a server, each with its own memory."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from farpoint_server import request_context
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.remote.channel import ASK, Channel, copy_in, finish
from farpoint_server.compute.remote.kinds import Kinds
from farpoint_server.compute.remote.region import Bytes, DamagedError, Mapped, arrange, specs_of
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import ServiceError

# Front ends that have not seen a change of state by then are frozen, and will be replaced.
STATE_S = 10.0
BACKLOG = 256
Handler = Callable[[bytes], Awaitable[bytes]]
log = structlog.get_logger("farpoint.compute")


class ComputeServer:
    """Accepts front ends at a Unix socket in a private folder.

    Args:
        path: Of the socket.
        compute: Runs their work, in one queue.
        kinds: Of work.
        handlers: Of other calls, by name.
        state: What each front end must know: JSON, and the models of it by number.
        gpu: For which the memory of front ends is locked, if there is one.
    """

    def __init__(
        self,
        path: Path,
        compute: Compute,
        kinds: Kinds,
        handlers: Mapping[str, Handler],
        state: Callable[[], tuple[bytes, Mapping[int, Any]]],
        gpu: int | None = None,
    ) -> None:
        self.compute, self.kinds, self.handlers = compute, kinds, handlers
        self._state, self._path, self._gpu = state, path, gpu
        self._socket: socket.socket | None = None
        self._front_ends: set[FrontEnd] = set()

    def start(self) -> None:
        """Starts to accept front ends."""
        self._socket = listening = socket.socket(socket.AF_UNIX)
        listening.setblocking(False)
        self._path.unlink(missing_ok=True)  # of an engine that was killed
        listening.bind(str(self._path))
        listening.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def stop(self) -> None:
        """Ends every connection; front ends have none open if they have drained."""
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        for front_end in [*self._front_ends]:
            front_end.channel.close()

    async def ask_all(self, name: str, data: bytes = b"") -> dict[int, bytes]:
        """The answers of all front ends that answer in time, by index."""
        front_ends = [*self._front_ends]
        asks = [asyncio.wait_for(each.ask(name, data), STATE_S) for each in front_ends]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        return {
            each.index: answer
            for each, answer in zip(front_ends, answers, strict=True)
            if isinstance(answer, bytes)
        }

    async def publish(self) -> None:
        """Tells every front end the state, and waits until each knows it."""
        await asyncio.gather(*[self._tell(front_end) for front_end in self._front_ends])

    async def _welcome(self, front_end: "FrontEnd") -> None:
        if self._gpu is not None:
            await asyncio.to_thread(front_end.memory.pin, self._gpu)
        await self._tell(front_end)

    async def _tell(self, front_end: "FrontEnd") -> None:
        state, models = self._state()
        front_end.models.update(models)
        with suppress(ServiceError, asyncio.TimeoutError):
            await asyncio.wait_for(front_end.ask("state", state), STATE_S)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            end, _ = listening.accept()
            loop = asyncio.get_running_loop()
            loop.add_reader(end, self._greet, loop, end)

    def _greet(self, loop: asyncio.AbstractEventLoop, end: socket.socket) -> None:
        """Takes the index and the memory of a front end."""
        loop.remove_reader(end)
        descriptors: list[int] = []
        try:
            index, descriptors, _, _ = socket.recv_fds(end, 1, 1, socket.MSG_CMSG_CLOEXEC)
            if not (index and descriptors):
                raise DamagedError("no memory")
            front_end = FrontEnd(self, end, index[0], Mapped(descriptors[0]))
        except (OSError, DamagedError) as error:
            log.error("front end refused", exc_info=error)
            end.close()
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._front_ends.add(front_end)
        front_end.greeting = loop.create_task(self._welcome(front_end))

    def leave(self, front_end: "FrontEnd") -> None:
        """Forgets a front end, whose calls are cancelled, and its memory."""
        self._front_ends.discard(front_end)
        front_end.memory.drop()
        front_end.models.clear()
        log.debug("front end left", front_end=front_end.index)


class FrontEnd:
    """One front end: its connection, its memory, and the models that it was given."""

    def __init__(
        self, server: ComputeServer, end: socket.socket, index: int, memory: Mapped
    ) -> None:
        self._server, self.index, self.memory = server, index, memory
        self.models: dict[int, Any] = {}
        self.greeting: asyncio.Task[None] | None = None
        self.channel = Channel(end, self._serve, lambda: server.leave(self), self._drop_model)

    def ask(self, name: str, data: bytes = b"") -> Awaitable[bytes]:
        """The front end's answer."""
        return self.channel.ask(b"%b\n%b" % (name.encode(), data))

    async def _serve(self, kind: int, payload: bytes) -> bytes:
        if kind == ASK:
            name, _, data = payload.partition(b"\n")
            handler = self._server.handlers.get(name.decode(errors="replace"))
            if handler is None:
                raise DamagedError("a call of no name")
            return await handler(data)
        return await self._run(payload)

    async def _run(self, payload: bytes) -> bytes:
        server = self._server
        try:
            timeout_s, caller, offset, size, parameters, specs = json.loads(payload)
            block = self.memory.block(offset, size)
            arrays = self.memory.read(offset, size, specs)
            work = server.kinds.unpack_work(parameters, arrays, self.models.get)
            timeout_s = None if timeout_s is None else float(timeout_s)
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(f"a call of another form: {error}") from error
        request_context.caller.set(str(caller))
        if server.compute.is_bounded:
            server.compute.check(work.least_bytes)
        outcome = await server.compute.run(work, timeout_s)
        del work, arrays
        # A block that it takes is the front end's again with the answer alone.
        answer, _ = await finish(asyncio.ensure_future(self._answer(outcome, block)))
        return answer

    async def _answer(self, outcome: Outcome[Any], block: Bytes) -> bytes:
        """Writes an answer into the block of its call, or into another one if it is larger."""
        parameters, arrays = self._server.kinds.pack_answer(outcome.result)
        arranged, other = arrange(arrays), None
        if arranged.size > len(block):
            other = json.loads(await self.ask("take", b"%d" % arranged.size))
            block = self.memory.block(*other)
        await copy_in(block, arrays, arranged)
        times = outcome.queue_ms, outcome.compute_ms
        return json.dumps([*times, other, parameters, specs_of(arrays)]).encode()

    def _drop_model(self, payload: bytes) -> None:
        self.models.pop(int(payload), None)
