"""The face of compute in a front end: small work here, all else in the engine's process."""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from farpoint_server import request_context
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.cpu import CPU
from farpoint_server.compute.remote.channel import CANCEL, NOTE, RUN, Channel, copy_in, gone
from farpoint_server.compute.remote.kinds import Kinds
from farpoint_server.compute.remote.region import Region, arrange, read, specs_of
from farpoint_server.compute.remote.server import Handler
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.work import Answer, Outcome, Work
from farpoint_server.errors import RETRY_MS, OverloadedError

RETRY_S = 0.05
# Of a core. A hop takes 0.1 to 0.35 ms of CPU (two cores, 16,384 points), so shorter work is done
# by the cores of this process. Not tuned.
LOCAL_NS = 5_000_000
FULL = "the memory that this front end shares with the engine is full"


class RemoteCompute(Compute):
    """Short work runs in this process if the device is a CPU, all else in the engine's.

    Args:
        local: Of this process's CPU.
        report_health: As for `Compute`, like `report_event`.
        path: Of the engine's socket.
        index: Of this front end.
        region_bytes: Addresses for the arrays of calls.
        kinds: Of work.
        handlers: Of the engine's calls, by name; "state" is given what the engine publishes.
    """

    def __init__(
        self,
        local: Sequence[DeviceScheduler],
        report_health: Callable[[str, bool], object],
        report_event: Callable[..., object],
        *,
        path: Path,
        index: int,
        region_bytes: int,
        kinds: Kinds,
        handlers: Mapping[str, Handler],
    ) -> None:
        super().__init__(local, report_health, report_event)
        self._report_health = report_health
        self._path, self._index, self._region_bytes = path, index, region_bytes
        self._kinds = kinds
        self._handlers = {**handlers, "state": self._take_state, "take": self._take_block}
        self._on_state = handlers["state"]
        self._engine: _Engine | None = None
        self._devices: list[torch.device] = []
        self._descriptions: list[tuple[str, str]] = []
        self._local_ns = -1
        self._lost, self._known = asyncio.Event(), asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._memory = local[0].engine.memory
        self._loop = asyncio.get_running_loop()
        self._memory.before_trim(self._release)

    @property
    def devices(self) -> list[torch.device]:
        return self._devices

    def describe(self) -> list[tuple[str, str]]:
        return self._descriptions

    @property
    def inline_ns(self) -> int:
        return min(super().inline_ns, self._local_ns)

    async def connect(self) -> None:
        """Waits for the engine, and connects again whenever it has been replaced."""
        self._connecting = asyncio.create_task(self._keep_connected())
        await self._known.wait()

    async def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._engine is not None:
            self._engine.channel.close()
        await super().stop()

    async def ask(self, name: str, data: bytes = b"") -> bytes:
        """The engine's answer to a call by name; raises what it raised."""
        if self._engine is None:
            raise gone()
        return await self._engine.channel.ask(b"%b\n%b" % (name.encode(), data))

    def drop_model(self, number: int) -> None:
        """Tells the engine that no request here refers to a model any more; on any thread."""
        engine = self._engine
        if engine is not None:
            send = partial(engine.channel.send, NOTE, payload=b"%d" % number)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(send)

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        if not work.uses_openmp and work.cost_ns("cpu") <= self._local_ns:
            return await super().run(work, timeout_s)
        engine = self._engine
        if engine is None:
            raise gone()
        is_done = self._memory.hold()
        try:
            return await engine.run(work, timeout_s)
        finally:
            is_done()

    async def _keep_connected(self) -> None:
        while True:
            end = socket.socket(socket.AF_UNIX)
            try:
                end.connect(str(self._path))
                region = Region(self._region_bytes)
                region.hand_over(end, self._index)
            except OSError:  # it starts
                end.close()
                await asyncio.sleep(RETRY_S)
                continue
            self._lost.clear()
            self._engine = _Engine(end, region, self._kinds, self._handlers, self._lost.set)
            await self._lost.wait()
            self._engine = None
            self._report_health("engine", False)

    async def _take_state(self, data: bytes) -> bytes:
        state = json.loads(data)
        await self._on_state(data)
        self._descriptions = [(name, text) for name, text in state["devices"]]
        self._devices[:] = [torch.device(name) for name, _ in self._descriptions]
        if self._engine is not None and {device.type for device in self._devices} == {"cpu"}:
            self._engine.region.kept_bytes = 0
        if CPU in self._devices:  # next to a GPU, placement chooses for what is not small
            self._local_ns = LOCAL_NS if {*self._devices} == {CPU} else super().inline_ns
        self._report_health("engine", state["serving"])
        self._known.set()
        return b""

    async def _take_block(self, data: bytes) -> bytes:
        if self._engine is None:
            raise gone()
        return json.dumps(self._engine.take(int(data))).encode()

    def _release(self) -> None:
        engine = self._engine
        if engine is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(engine.region.release)


class _Engine:
    """One connection to an engine, and the memory that it shares."""

    def __init__(
        self,
        end: socket.socket,
        region: Region,
        kinds: Kinds,
        handlers: Mapping[str, Handler],
        on_end: Callable[[], object],
    ) -> None:
        self.region, self._kinds, self._handlers = region, kinds, handlers
        self.channel = Channel(end, self._serve, on_end)

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """The engine's answer to a request."""
        parameters, arrays = self._kinds.pack_work(work)
        arranged = arrange(arrays)
        block = self.take(arranged.size)
        try:
            await copy_in(self.region.bytes_of(block), arrays, arranged)
            caller = request_context.caller.get()
            call = timeout_s, caller, *block, parameters, specs_of(arrays)
            payload = json.dumps(call).encode()
        except BaseException:
            self.region.free(block)
            raise
        del work, arrays, arranged
        answer: asyncio.Future[Outcome[Answer]] = asyncio.get_running_loop().create_future()
        number = self.channel.begin(RUN, payload, partial(self._settle, answer, block))
        try:
            return await answer
        except asyncio.CancelledError:
            self.channel.send(CANCEL, number)
            del answer  # with its block, if it has come: the error refers to this frame
            raise

    def take(self, size: int) -> tuple[int, int]:
        """A block; raises OverloadedError if there is none."""
        block = self.region.take(size)
        if block is None:
            raise OverloadedError(FULL, RETRY_MS)
        return block

    def _settle(
        self,
        answer: "asyncio.Future[Outcome[Any]]",
        block: tuple[int, int],
        payload: bytes,
        error: Exception | None,
    ) -> None:
        """Gives the caller its outcome, whose arrays lie in the block of the call or another."""
        if error is not None:
            self.region.free(block)
            if not answer.done():
                answer.set_exception(error)
            return
        queue_ms, compute_ms, other, parameters, specs = json.loads(payload)
        if other is not None:
            self.region.free(block)
            block = other[0], other[1]
        arrays = read(self.region.lend(block), specs)
        if not answer.done():
            result = self._kinds.unpack_answer(parameters, arrays)
            answer.set_result(Outcome(result, queue_ms, compute_ms))

    async def _serve(self, _kind: int, payload: bytes) -> bytes:
        name, data = payload.split(b"\n", 1)
        return await self._handlers[name.decode()](data)
