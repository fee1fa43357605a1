"""Bodies of HTTP requests: bounds, and what counts while they are received and converted."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.datastructures import Headers
from tests.support.rpc import AsgiCaller

from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.http import exchange as module
from farpoint_server.transport.http.exchange import Body, BodyLimits

LARGE = 1 << 62


@pytest.fixture
def admission():
    admission = Admission(10, 1 << 20)
    yield admission
    assert admission.bytes == 0


@pytest.fixture
def body(admission):
    """Makes a body of some pieces, with headers and a bound of the server."""
    threads = ThreadPoolExecutor(1)

    def make(*pieces, max_bytes=1 << 19, whole=True, **headers):
        named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
        make.caller = AsgiCaller(*pieces, whole=whole)
        limits = BodyLimits(admission, threads, max_bytes, clouds=1)
        return Body(make.caller.receive, named, limits)

    yield make
    threads.shutdown()


@pytest.mark.parametrize("bounds", [(10, LARGE), (LARGE, 10)])
async def test_a_body_of_the_bound_is_read_and_one_of_a_byte_more_is_not(body, bounds):
    most, of_server = bounds
    assert await body(b"abcdef", b"ghij", max_bytes=of_server).read(None, most) == b"abcdefghij"
    exact = body(b"abcdefghij", max_bytes=of_server, content_length="10")
    assert await exact.read(None, most) == b"abcdefghij"
    assert exact.ended.is_set()
    with pytest.raises(InvalidRequestError, match=r"at most 10 bytes, got more"):
        await body(b"abcdef", b"ghijk", max_bytes=of_server).read(None, most)
    unread = body(b"abc", whole=False, max_bytes=of_server, content_length="11")
    with pytest.raises(InvalidRequestError, match=r"at most 10 bytes, got 11 bytes"):
        await unread.read(None, most)
    assert not unread.ended.is_set()


@pytest.mark.parametrize("size", [module.INLINE_BYTES, module.INLINE_BYTES + 1])
async def test_text_and_message_count_together_and_large_ones_are_converted_on_a_thread(
    body, admission, size
):
    def convert(raw):
        assert admission.points == 0
        seen.append((admission.bytes, threading.current_thread() is threading.main_thread()))
        return raw[:1]

    seen = []
    assert await body(b"a", b"b" * (size - 1)).read(convert, LARGE) == b"a"
    assert seen == [(2 * size, size <= module.INLINE_BYTES)]


async def test_what_arrives_counts_as_it_arrives_until_its_caller_leaves(body, admission):
    half = body(b"abc", b"de", whole=False)
    reading = asyncio.ensure_future(half.read(None, LARGE))
    while admission.bytes < 5:
        await asyncio.sleep(0)
    assert not half.ended.is_set()
    body.caller.left.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert half.ended.is_set()


async def test_a_body_without_room_is_refused(body):
    with pytest.raises(OverloadedError):
        await body(bytes(1 << 20), b"a", max_bytes=LARGE).read(None, LARGE)
