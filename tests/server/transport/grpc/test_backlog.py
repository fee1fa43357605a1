"""Calls that wait in gRPC: how many, and whose turn it is when they are handed over."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc
import pytest
from structlog.testing import capture_logs
from tests.support.compute.scheduling import until
from tests.support.rpc import METHOD

from farpoint_server.services.receiver import ROUND, Receiver
from farpoint_server.transport.grpc import backlog as backlog_module
from farpoint_server.transport.grpc.backlog import Backlog
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight

MANY = 300


def block_until(is_so: Callable[[], bool]) -> None:
    """Blocks the event loop, as work on it does, until calls have arrived behind it."""
    give_up = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def arrived(backlog: Backlog) -> int:
    """Calls that wait and those that were handed over, a few of them before the first answer."""
    return backlog.waiting() + backlog._accepted


@asynccontextmanager
async def serving(answer: Callable, backlog: Backlog) -> AsyncIterator[str]:
    """The address of a server of one method that takes a stream."""
    _, service, name = METHOD.split("/")
    server = grpc.aio.server(interceptors=[backlog, RequestInterceptor(InFlight())])
    handlers = {name: grpc.stream_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    backlog.watch_newest_server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@contextmanager
def calling(address: str) -> Iterator[Callable[[bytes], grpc.Future]]:
    """Begins calls on a connection of its own, on threads of gRPC."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options) as channel:
        yield channel.unary_unary(METHOD).future


async def test_calls_that_wait_are_counted_and_those_that_left_are_not():
    backlog, seen = Backlog(), []

    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        await context.read()
        if not seen:
            block_until(lambda: arrived(backlog) >= 51)
            for call in calls[11:31]:
                call.cancel()
        seen.append(context)
        return b""

    async with serving(answer, backlog) as address:
        with calling(address) as call:
            calls = [call(b"") for _ in range(51)]
            # Some may be handed over before gRPC knows that they have left.
            await until(lambda: len(seen) >= 31)
            await until(lambda: backlog.waiting() == 0)
            handed_over = asyncio.Event()
            backlog.when_handed_over(1, handed_over.set)
            call(b"")
            await asyncio.wait_for(handed_over.wait(), 30)
            backlog.when_handed_over(9, handed_over.clear)  # which never come
            await until(lambda: not handed_over.is_set())


async def test_a_callers_hundreds_of_small_calls_do_not_come_before_the_next_call_of_another():
    backlog, served = Backlog(), []
    turns = Receiver(ROUND, backlog=backlog)

    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        served.append(await turns.receive(context))
        if len(served) == 1:
            block_until(lambda: arrived(backlog) >= MANY + 1)
            calls.append(other(b"other"))
            block_until(lambda: arrived(backlog) >= MANY + 2)
        time.sleep(0.001)
        return b""

    async with serving(answer, backlog) as address:
        with calling(address) as one, calling(address) as other:
            calls = [one(b"one") for _ in range(MANY + 1)]
            await until(lambda: len(served) == MANY + 2)
    # A round that had begun, one that is read, what comes over meanwhile; without turns it is the
    # last of all.
    assert served.index(b"other") < MANY / 3


class Broken:
    """Counters of another version of gRPC: of another form."""

    def channelz_get_servers(self, _: int) -> bytes:
        return b'{"server": [{"ref": {"serverId": "1"}}], "end": true}'

    def channelz_get_server(self, _: int) -> bytes:
        return b'{"servers": []}'


@pytest.mark.parametrize("other", [None, object(), Broken()])
async def test_a_grpc_without_these_counters_serves_and_has_no_backlog(monkeypatch, other):
    monkeypatch.setattr(backlog_module, "cygrpc", other)
    backlog = Backlog()
    turns = Receiver(ROUND, backlog=backlog)

    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        return await turns.receive(context)

    with capture_logs() as log:
        async with serving(answer, backlog) as address:
            with calling(address) as call:
                calls = [call(b"message") for _ in range(3 * ROUND)]
                await until(lambda: all(each.done() for each in calls))
    assert {each.result() for each in calls} == {b"message"}
    assert backlog.waiting() == 0
    assert log[0]["event"] == "calls that wait in gRPC cannot be counted"


def test_a_grpc_without_the_private_module_is_imported():
    hidden = "sys.modules['grpc._cython'] = None; del sys.modules['grpc._cython.cygrpc']"
    load = "from farpoint_server.transport.grpc import backlog; assert backlog.cygrpc is None"
    code = f"import sys, grpc; {hidden}; {load}"
    subprocess.run([sys.executable, "-c", code], check=True)
