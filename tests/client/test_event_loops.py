"""An AsyncClient belongs to the event loop of its first call, and says so in another."""

import asyncio
import pickle
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import trio

import farpoint
from farpoint import AsyncClient, FailedPreconditionError

CLOUD = np.random.default_rng(3).random((200, 3), np.float32)
TIMEOUT_S = 30


async def sample(client: AsyncClient) -> object:
    return await client.sample(CLOUD, 3)


async def stream(client: AsyncClient) -> object:
    return [each async for each in client.sample_stream([CLOUD], 3)]


async def upload(client: AsyncClient) -> object:
    return await client.sample(np.tile(CLOUD, (600, 1)), 3)


async def infer_batch(client: AsyncClient) -> object:
    return await client.infer("fps", [{"points": CLOUD}] * 2)


async def describe(client: AsyncClient) -> object:
    return await client.server_info()


CALLS = [sample, stream, upload, infer_batch, describe]
WORDS = "belongs to the event loop of its first call"


@pytest.fixture
def elsewhere() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_after_the_loop_is_closed_says_so(server, call):
    server.message_bytes = 1 << 20
    client = AsyncClient(server.target, timeout=TIMEOUT_S)
    asyncio.run(sample(client))
    for _ in range(2):
        with pytest.raises(FailedPreconditionError, match=f"{WORDS}, which is closed"):
            asyncio.run(call(client))
    asyncio.run(client.close())
    asyncio.run(sample(pickle.loads(pickle.dumps(client))))


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_another_loop_says_so_and_the_client_still_works_in_its_own(
    server, elsewhere, call
):
    server.message_bytes = 1 << 20
    client = AsyncClient(server.target, timeout=TIMEOUT_S)

    def own(awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, elsewhere).result(TIMEOUT_S)

    own(sample(client))
    with pytest.raises(FailedPreconditionError, match=WORDS):
        asyncio.run(call(client))
    with pytest.raises(FailedPreconditionError, match=WORDS):
        asyncio.run(client.close())
    assert len(own(sample(client))) == 3
    own(client.close())


@pytest.mark.parametrize("debug", [False, True])
def test_a_stream_that_is_read_on_in_another_loop_says_so(server, elsewhere, debug):
    client = AsyncClient(server.target, timeout=TIMEOUT_S)
    answers = client.sample_stream([CLOUD] * 5, 3)

    async def read():
        return await anext(answers)

    first = asyncio.run_coroutine_threadsafe(read(), elsewhere).result(TIMEOUT_S)
    assert len(first.sample) == 3
    with pytest.raises(FailedPreconditionError, match=WORDS):
        asyncio.run(read(), debug=debug)
    asyncio.run_coroutine_threadsafe(client.close(), elsewhere).result(TIMEOUT_S)


def test_a_stream_that_is_read_on_after_its_loop_is_closed_says_so(server):
    client = AsyncClient(server.target, timeout=TIMEOUT_S)
    answers, loop = client.sample_stream([CLOUD] * 5, 3), asyncio.new_event_loop()

    async def read():
        return await anext(answers)

    loop.run_until_complete(read())
    loop.close()
    with pytest.raises(FailedPreconditionError, match=f"{WORDS}, which is closed"):
        asyncio.run(read())


@pytest.mark.parametrize("call", CALLS)
def test_another_kind_of_loop_is_named(server, call):
    client = AsyncClient(server.target, timeout=TIMEOUT_S)
    with pytest.raises(FailedPreconditionError, match="needs an event loop of asyncio"):
        trio.run(call, client)


def test_a_client_that_has_called_nothing_may_be_closed_in_any_loop(server):
    client = AsyncClient(server.target)
    asyncio.run(client.close())
    with pytest.raises(farpoint.FarpointError, match="closed"):
        asyncio.run(sample(client))
