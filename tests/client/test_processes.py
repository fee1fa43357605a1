"""Clients in other processes, pickled or forked, and in other event loops."""

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import trio

import farpoint
from farpoint import AsyncClient, FailedPreconditionError

FORKED = """
import asyncio, os, sys
import numpy as np
import farpoint

target, case = sys.argv[1:]
cloud = np.random.default_rng(7).normal(size=(500, 3)).astype(np.float32)
client = farpoint.Client(target, timeout=20)
if case != "unused":
    client.sample(cloud, 3)
if case in ("closed", "async"):
    client.close()
    client = farpoint.Client(target, timeout=20)
if case == "async":
    async def use():
        async with farpoint.AsyncClient(target) as other:
            await other.sample(cloud, 3)
    asyncio.run(use())
child = os.fork()
if not child:
    try:
        print(len(client.sample(cloud, 5)), flush=True)
        client.close()
    except farpoint.FailedPreconditionError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", len(client.sample(cloud, 4)))
"""


@pytest.fixture
def run_forked(server):
    def run(case: str) -> list[str]:
        command = [sys.executable, "-c", FORKED, server.target, case]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    return run


@pytest.mark.parametrize("kind", [farpoint.Client, farpoint.AsyncClient])
def test_a_pickled_client_has_the_same_arguments(kind):
    tls = farpoint.Tls(server_name="a")
    client = kind(["a:1", "b:2"], timeout=7, tls=tls, retry_budget=9)
    twin = pickle.loads(pickle.dumps(client))
    assert (type(twin), twin.target) == (kind, "a:1,b:2")
    assert pickle.dumps(twin) == pickle.dumps(client)


def test_a_client_is_pickled_after_use_and_connects_anew(client, cloud):
    expected = client.sample(cloud, 9)
    with pickle.loads(pickle.dumps(client)) as twin:
        assert np.array_equal(twin.sample(cloud, 9).indices, expected.indices)
    assert len(client.sample(cloud, 2)) == 2


def test_credentials_of_grpc_cannot_be_pickled():
    client = farpoint.Client(credentials=grpc.local_channel_credentials())
    with pytest.raises(TypeError, match="give tls and token instead"):
        pickle.dumps(client)


def test_a_client_that_is_not_used_yet_works_on_both_sides_of_a_fork(run_forked):
    assert run_forked("unused") == ["5", "parent 4"]


@pytest.mark.parametrize("case", ["used", "closed", "async"])
def test_a_call_after_a_fork_is_an_error_with_the_remedy(run_forked, case):
    error, parent = run_forked(case)
    assert "spawn" in error
    assert parent == "parent 4"


@pytest.mark.parametrize("used", [False, True])
def test_a_closed_client_takes_no_calls(server, cloud, used):
    client = farpoint.Client(server.target)
    if used:
        client.sample(cloud, 2)
    client.close()
    with pytest.raises(farpoint.FarpointError, match="closed"):
        client.sample(cloud, 2)


CLOUD = np.random.default_rng(3).random((200, 3), np.float32)
TIMEOUT_S = 30


async def sample(client: AsyncClient) -> object:
    return await client.sample(CLOUD, 3)


async def stream(client: AsyncClient) -> object:
    return [each async for each in client.sample_stream([CLOUD], 3)]


CALLS = [sample, stream]
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
