"""An engine and its front ends in one event loop, joined by a real socket and real memory."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress

from farpoint_server.compute.compute import Compute
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.compute.remote.region import Region
from farpoint_server.compute.remote.server import ComputeServer
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.kinds import wire

GPU = {"serving": True, "devices": [["cuda:0", "a GPU"]], "models": []}


def no_report(*_, **__):
    """Ignores health."""


async def local_compute() -> Compute:
    """The CPU of this process."""
    compute = Compute([DeviceScheduler(CpuEngine(1), 1 << 20)], no_report, no_report)
    compute.start()
    return compute


class EngineOf:
    """A `ComputeServer` with one compute, whose front ends run nothing themselves."""

    def __init__(self, path, compute, handlers=None, models=None) -> None:
        self.path, self.models = path, models or {}
        self.state = {**GPU, "models": [*self.models]}
        self.server = ComputeServer(path, compute, wire, handlers or {}, self._state)
        self.server.start()

    def _state(self):
        return json.dumps(self.state).encode(), self.models


@asynccontextmanager
async def front_end(path, index=0, region_bytes=1 << 26, report_health=no_report, handlers=None):
    """A front end that is connected."""

    async def ignore(_: bytes) -> bytes:
        return b""

    remote = RemoteCompute(
        [DeviceScheduler(CpuEngine(1), 1 << 20)],
        report_health,
        no_report,
        path=path,
        index=index,
        region_bytes=region_bytes,
        kinds=wire,
        handlers={"state": ignore, **(handlers or {})},
    )
    await asyncio.wait_for(remote.connect(), 30)
    yield remote
    await remote.stop()


class RawFrontEnd:
    """A connection that sends what it likes."""

    def __init__(self, path, memory=None) -> None:
        self.region = Region(1 << 20)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        if memory is None:
            self.region.hand_over(self.socket, 7)
        else:
            socket.send_fds(self.socket, [b"\7"], memory)
        self.socket.setblocking(False)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def end(self) -> bytes:
        """What the engine sends until it closes the connection."""
        received, loop = b"", asyncio.get_running_loop()
        with self.socket, suppress(ConnectionResetError):
            while data := await asyncio.wait_for(loop.sock_recv(self.socket, 1 << 16), 30):
                received += data
        return received
