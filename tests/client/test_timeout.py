"""One deadline for all that a call does: server-info lookup, upload, shared memory, retries."""

import socket
import threading

import grpc
import numpy as np
import pytest

import farpoint

CLOUD = np.random.default_rng(6).normal(size=(100_000, 3)).astype(np.float32)
TIMEOUT_S = 10.0


@pytest.fixture(params=["Client", "AsyncClient"])
def sample(request, server):
    """Samples CLOUD with a new client of either kind."""

    async def call(timeout: float, **options: str) -> farpoint.Sample:
        if request.param == "Client":
            with farpoint.Client(server.target, **options) as client:
                return client.sample(CLOUD, 1, timeout=timeout)
        async with farpoint.AsyncClient(server.target, **options) as client:
            return await client.sample(CLOUD, 1, timeout=timeout)

    return call


@pytest.mark.parametrize("message_bytes", [64 << 20, 1 << 20], ids=["one message", "upload"])
async def test_the_time_of_a_lookup_is_taken_from_the_request(server, sample, message_bytes):
    server.message_bytes, server.info_takes_s = message_bytes, 0.5
    await sample(TIMEOUT_S)
    assert bool(server.pieces) == (message_bytes < CLOUD.nbytes)
    [left] = server.time_left_s
    assert left < TIMEOUT_S - 0.4


async def test_a_lookup_that_takes_all_of_the_time_ends_the_call(server, sample):
    server.info_takes_s = 1.0
    with pytest.raises(farpoint.DeadlineExceededError):
        await sample(0.2)
    assert not server.requests


async def test_a_server_that_does_not_take_shared_memory_in_time_ends_the_call(
    server, sample, tmp_path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(f"{tmp_path}/silent")
        silent.listen()
        with pytest.raises(farpoint.DeadlineExceededError, match=r"within 0\.3 s"):
            await sample(0.3, shared_memory=f"unix:{tmp_path}/silent")
    assert not server.requests


async def test_no_time_at_all_is_a_passed_deadline(sample):
    with pytest.raises(farpoint.DeadlineExceededError):
        await sample(1e-9)


async def test_attempts_share_the_time_of_the_call(server, sample):
    """The first fails after a second, the next is never answered."""
    server.fail(grpc.StatusCode.UNAVAILABLE)
    server.fails_after_s = 1.0
    server.hold = threading.Event()
    with pytest.raises(farpoint.DeadlineExceededError):
        await sample(3.0)
    first, second = server.time_left_s
    assert second < first - 0.9
