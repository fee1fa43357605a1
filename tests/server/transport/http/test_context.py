"""The context of a call over HTTP, as handlers and interceptors of gRPC use it."""

import time

import grpc
import pytest

from farpoint_server import request_context
from farpoint_server.transport.http.context import HttpContext, peer_of


def context(deadline=None, body=b"message"):
    async def receive():
        return body

    return HttpContext((("a", "b"),), "ipv4:127.0.0.1:1", deadline, receive)


@pytest.mark.parametrize(
    ("client", "peer", "caller"),
    [
        (("192.0.2.7", 80), "ipv4:192.0.2.7:80", "ipv4:192.0.2.7"),
        (("::ffff:192.0.2.7", 80), "ipv4:192.0.2.7:80", "ipv4:192.0.2.7"),
        (("2001:db8::7", 80), "ipv6:%5B2001:db8::7%5D:80", "ipv6:2001:db8::/64"),
        (("127.0.0.1", 80), "ipv4:127.0.0.1:80", "ipv4:127.0.0.1:80"),
        (("::1", 80), "ipv6:%5B::1%5D:80", "ipv6:%5B::1%5D:80"),
        (None, "unknown:0", "unknown:0"),
    ],
)
def test_a_caller_is_the_same_one_as_over_grpc(client, peer, caller):
    assert peer_of({"client": client}) == peer
    assert request_context.address_of(peer) == caller


async def test_the_message_comes_once():
    call = context()
    call.deserialize = bytes.upper
    assert await call.read() == b"MESSAGE"
    assert await call.read() is grpc.aio.EOF


async def test_an_abort_keeps_what_the_caller_is_told():
    call = context()
    with pytest.raises(grpc.aio.AbortError):
        await call.abort(grpc.StatusCode.NOT_FOUND, "none", (("x", "y"),))
    assert (call.code(), call.message, call.trailers) == (
        grpc.StatusCode.NOT_FOUND,
        "none",
        (("x", "y"),),
    )


def test_time_runs_out_and_does_not_become_negative():
    assert context().time_remaining() is None
    assert 0 < context(time.monotonic() + 100).time_remaining() <= 100
    assert context(time.monotonic() - 1).time_remaining() == 0


def test_callbacks_are_called_once_at_the_end():
    call, ended = context(), []
    call.add_done_callback(ended.append)
    call.close()
    call.close()
    assert ended == [call]
