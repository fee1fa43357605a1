"""Order, admission and slowest rate of an upload, by a clock of our own."""

from unittest.mock import Mock

import grpc
import pytest
from tests.support.rpc import CallContext

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError, OverloadedError
from farpoint_server.services.upload import BYTES_PER_S, handle, receive_points
from farpoint_server.transport.admission import Admission


class Sender:
    """The context of an upload: each message comes after so many seconds of the clock."""

    def __init__(self, clock: list[float], *messages: tuple[float, bytes]) -> None:
        self._seconds, self._messages = clock, iter(messages)

    def clock(self) -> float:
        return self._seconds[0]

    async def read(self) -> bytes:
        seconds, data = next(self._messages, (0.0, b""))
        self._seconds[0] += seconds
        return pb.SampleLargeRequest(points_data=data).SerializeToString() if data else grpc.aio.EOF


@pytest.fixture
def clock():
    return [100.0]


POINTS = 1000
SIZE = 12_000


async def receive(sender: Sender, admission: Admission, size: int = SIZE) -> bytes:
    with admission.reserve(0, 0) as hold:
        data = await receive_points(sender, POINTS, size, 1, hold, sender.clock)
        assert (admission.points, admission.bytes) == (POINTS, size)
        return bytes(data)


async def test_points_count_as_they_arrive(clock):
    admission, seen = Admission(1000, SIZE, 1), []

    class Watching(Sender):
        async def read(self) -> bytes:
            seen.append((admission.points, admission.bytes))
            return await super().read()

    data = bytes(range(100)) * 120
    sender = Watching(clock, (0, data[:6]), (0, data[6:6000]), (0, data[6000:]))
    assert await receive(sender, admission) == data
    assert seen == [(0, 0), (0, 6), (500, 6000), (1000, SIZE)]
    assert (admission.points, admission.bytes) == (0, 0)


async def test_what_arrives_at_a_full_server_is_refused(clock):
    admission = Admission(1000, SIZE, 1)
    with admission.reserve(600, 1), pytest.raises(OverloadedError):
        await receive(Sender(clock, (0, bytes(6000))), admission)
    assert (admission.points, admission.bytes) == (0, 0)


async def test_an_upload_below_the_least_rate_is_refused(clock):
    """A byte every 29 seconds is no silence of 30."""
    trickle = [(29.0, b"\0")] * 10
    with pytest.raises(DeadlinePassedError, match="too little arrived"):
        await receive(Sender(clock, *trickle), Admission(1000, SIZE, 1))
    assert clock[0] < 100 + 3 * 29


async def test_an_upload_at_the_least_rate_is_received(clock):
    steady, size = [(10.0, bytes(10 * BYTES_PER_S))] * 4, 40 * BYTES_PER_S
    admission = Admission(1000, size, 1)
    assert await receive(Sender(clock, *steady), admission, size) == bytes(size)


@pytest.mark.parametrize(
    ("first", "got"),
    [
        ([pb.SampleLargeRequest(points_data=b"1")], "points_data"),
        ([pb.SampleLargeRequest()], "an empty message"),
        ([], "no message"),
    ],
)
async def test_an_upload_without_a_request_first_is_refused(first, got):
    context = CallContext(*(message.SerializeToString() for message in first))
    with pytest.raises(InvalidRequestError, match=f"a request first, got {got}"):
        await handle(Mock(limits=RequestLimits(1000, 1000, 1)), context)
    assert not context.has_metadata
