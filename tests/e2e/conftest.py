"""One server for the whole run; tests that stop or overload a server start their own.

A module that needs other flags has a fixture `server` of its own; the clients are then of that.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from tests.support.servers.server_process import OTHER_SERVER, RunningServer

import farpoint
from farpoint.v1 import sampling_pb2_grpc

MESSAGE_BYTES = 4 << 20


@pytest.fixture(scope="session")
def socket_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("farpoint")
    if OTHER_SERVER:  # which may be another user's
        folder.chmod(0o777)
        folder.parent.chmod(0o755)
    return folder / "server.sock"


@pytest.fixture(scope="session")
def server(socket_path: Path) -> Iterator[RunningServer]:
    with RunningServer(
        "--listen", f"unix:{socket_path}", "--max-message-bytes", str(MESSAGE_BYTES)
    ) as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers with flags and a slowness of their own; none outlives the test."""
    servers: list[RunningServer] = []

    def start(*flags: str, batch_s: float | None = None, failing: bool = False) -> RunningServer:
        servers.append(RunningServer(*flags, batch_s=batch_s, failing=failing))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.wait()


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel: grpc.Channel) -> sampling_pb2_grpc.SamplingServiceStub:
    """A raw stub, without the checks of the client."""
    return sampling_pb2_grpc.SamplingServiceStub(channel)


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.address) as client:
        yield client
