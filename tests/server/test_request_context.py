"""Context of a request: bound once, merged into lines, apart for the requests of a stream."""

import asyncio

import pytest

from farpoint_server import request_context
from farpoint_server.transport.grpc.interceptor import begin


async def test_fields_of_interceptors_belong_to_the_call():
    request_context.bind(caller="someone")
    begin(lambda *_: None, "unix:", method="Sample")
    request_context.bind(points=5)
    assert request_context.current().fields == {
        "caller": "someone",
        "method": "Sample",
        "points": 5,
    }


async def test_requests_of_a_stream_have_fields_of_their_own():
    ended = []
    begin(lambda *fields: ended.append(fields), "unix:", method="SampleStream")

    async def request(index):
        request_context.fork(request_index=index)
        await asyncio.sleep(0)
        request_context.bind(points=index)
        request_context.current().on_end(0.5, None, {})
        return request_context.current().fields

    first, second = await asyncio.gather(request(1), request(2))
    assert (first["request_index"], first["points"]) == (1, 1)
    assert (second["request_index"], second["points"]) == (2, 2)
    assert request_context.current().fields == {"method": "SampleStream"}
    assert len(ended) == 2


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.1.2.3:5000", "ipv4:10.1.2.3"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:5000", "ipv6:2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", "ipv6:fe80::/64"),
        ("ipv4:127.0.0.1:5000", "ipv4:127.0.0.1:5000"),
        ("ipv6:%5B::1%5D:5000", "ipv6:%5B::1%5D:5000"),
        ("unix:", "unix:"),
        ("what gRPC may name one day", "what gRPC may name one day"),
    ],
)
async def test_a_network_address_is_one_caller_and_a_local_connection_another(peer, address):
    begin(lambda *_: None, peer, method="Sample")
    assert request_context.caller.get() == address


async def test_a_token_is_one_caller_from_wherever_and_in_each_request_of_a_stream():
    request_context.bind(caller="robot")
    begin(lambda *_: None, "ipv4:10.1.2.3:5000", method="SampleStream")
    request_context.fork(request_index=0)
    assert request_context.caller.get() == "token:robot"
