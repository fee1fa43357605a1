"""Sampling in streams of messages: SampleStream, and SampleLarge for one large request."""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from farpoint._connection.call import CallContext
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.methods import Method, Progress
from farpoint._rpcs.sample import SampleRpc, check_choice
from farpoint._rpcs.serialized import SerializedRequest, in_stream
from farpoint.errors import InternalError, InvalidArgumentError, from_status
from farpoint.results import Sample, StreamedSample
from farpoint.v1 import sampling_pb2 as pb

# A larger request is sent in pieces where its progress is wanted.
SHOWN_FROM_BYTES = 1 << 24
# Large enough that the cost of a message does not count, small enough to be sent while the next
# chunk is packed.
CHUNK_BYTES = 1 << 20

Request: TypeAlias = pb.SampleStreamRequest | SerializedRequest


@dataclass(frozen=True)
class _Entry:
    """A cloud: its index for the caller, its index on the wire, and its request."""

    index: int
    request_index: int
    rpc: SampleRpc | InvalidArgumentError


class SampleStreamRpc:
    """One call of `sample_stream`; its arguments are checked at once.

    Requests may be taken in one thread while answers are read in another: one appends to the end
    of a deque, the other takes from its beginning.
    """

    def __init__(
        self,
        m: int | None,
        start: int,
        nonfinite: str,
        latest_only: bool,
        context: CallContext,
        checksums: bool = False,
        radius: float | None = None,
        method: Method | None = None,
    ) -> None:
        check_choice(m, start, nonfinite, radius, method)
        self.context = context
        self._sampling: dict[str, Any] = {
            "m": m,
            "start": start,
            "nonfinite": nonfinite,
            "checksums": checksums,
            "radius": radius,
            "method": method,
        }
        self._mode = pb.STREAM_MODE_LATEST if latest_only else pb.STREAM_MODE_EVERY
        self._sent = 0
        self._entries: deque[_Entry] = deque()
        self._failure: Exception | None = None
        self._is_complete = False

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the stub's method; the timeout starts when the answers are read."""
        return {**self.context.rpc_options(), "timeout": self.context.timeout}

    def requests(self, clouds: Iterable[object]) -> Iterator[Request]:
        """The messages of the stream; a failure of `clouds` ends them and is kept for `finish`."""
        try:
            for index, points in enumerate(clouds):
                yield from self._request(index, points)
        except Exception as error:
            self._failure = error
        self._is_complete = True

    async def requests_async(
        self, clouds: Iterable[object] | AsyncIterable[object]
    ) -> AsyncIterator[Request]:
        """Like `requests`."""
        try:
            index = 0
            async for points in _each(clouds):
                for request in self._request(index, points):
                    yield request
                index += 1
        except Exception as error:
            self._failure = error
        self._is_complete = True

    def read(self, response: pb.SampleStreamResponse) -> Iterator[StreamedSample]:
        """The answer, after those to earlier clouds that were never sent."""
        while True:
            if not self._entries:
                raise InternalError(
                    f"the server answered request {response.request_index} of {self._sent}"
                )
            entry = self._entries.popleft()
            if isinstance(entry.rpc, InvalidArgumentError):
                yield StreamedSample(entry.index, None, entry.rpc)
            elif entry.request_index == response.request_index:
                yield self._answer(entry.index, entry.rpc, response)
                return

    def finish(self) -> Iterator[StreamedSample]:
        """The clouds left when the server has ended; raises the error of the caller's clouds.

        Raises:
            InternalError: the server ended the stream before it had answered everything.
        """
        unanswered = 0
        for entry in self._entries:
            if isinstance(entry.rpc, InvalidArgumentError):
                yield StreamedSample(entry.index, None, entry.rpc)
            else:
                unanswered += self._mode == pb.STREAM_MODE_EVERY
        if self._failure is not None:
            raise self._failure
        if unanswered or not self._is_complete:
            raise InternalError(
                f"the server ended the stream early, {unanswered} clouds are not answered",
                request_id=self.context.request_id,
            )

    def _request(self, index: int, points: object) -> Iterator[Request]:
        rpc = self._sample_rpc(points)
        self._entries.append(_Entry(index, self._sent, rpc))
        if isinstance(rpc, SampleRpc):
            self._sent += 1
            yield in_stream(rpc.request, self._mode)

    def _sample_rpc(self, points: object) -> SampleRpc | InvalidArgumentError:
        try:
            rpc = SampleRpc(points, **self._sampling)
        except InvalidArgumentError as error:
            return error
        if rpc.batch.single:
            return rpc
        return InvalidArgumentError(
            "each element of clouds must be one cloud (N, 3), got a batch", field="points.shape"
        )

    def _answer(
        self, index: int, rpc: SampleRpc, response: pb.SampleStreamResponse
    ) -> StreamedSample:
        if response.HasField("error"):
            error = from_status(response.error, self.context.request_id)
            return StreamedSample(index, None, error)
        sample = rpc.read(response.response, self.context)
        assert isinstance(sample, Sample)
        return StreamedSample(index, sample, None)


async def _each(clouds: Iterable[object] | AsyncIterable[object]) -> AsyncIterator[object]:
    if isinstance(clouds, AsyncIterable):
        async for points in clouds:
            yield points
    else:
        for points in clouds:
            yield points


def in_pieces(
    rpc: SampleRpc, limit: int | None, progress: Progress | None
) -> UnaryRpc[Any, Sample | list[Sample]]:
    """An upload, if the server does not take the request in one message, or progress is wanted.

    Args:
        rpc: the request.
        limit: bytes that the server takes in one message; None if they are certainly enough.
        progress: called with the bytes sent of a request above `SHOWN_FROM_BYTES`.
    """
    if limit is None:
        return rpc
    size = rpc.request.ByteSize()
    is_shown = progress is not None and size > SHOWN_FROM_BYTES
    return UploadRpc(rpc, limit, progress) if size > limit or is_shown else rpc


class UploadRpc(UnaryRpc[pb.SampleLargeResponse, Sample | list[Sample]]):
    """A `SampleRpc` in several messages.

    Args:
        rpc: the request.
        limit: bytes that the server takes in one message.
        progress: called after each message with the bytes of points sent, and of all points.
    """

    method = attrgetter("sampling.SampleLarge")

    def __init__(self, rpc: SampleRpc, limit: int, progress: Progress | None = None) -> None:
        self._rpc = rpc
        self.request = _messages(rpc, max(1, min(CHUNK_BYTES, limit // 2)), progress)

    def read(self, response: pb.SampleLargeResponse, context: CallContext) -> Sample | list[Sample]:
        return self._rpc.read(response.response, context)


def _messages(
    rpc: SampleRpc, step: int, progress: Progress | None
) -> Iterator[pb.SampleLargeRequest]:
    """The request without the data of its points, then the data in chunks."""
    pieces = rpc.data
    if not pieces:
        pieces = [memoryview(rpc.head.points.data)]
        rpc.head.points.ClearField("data")
    yield pb.SampleLargeRequest(request=rpc.head)
    sent, total = 0, sum(map(len, pieces))
    for data in pieces:
        for begin in range(0, len(data), step):
            chunk = bytes(data[begin : begin + step])
            yield pb.SampleLargeRequest(points_data=chunk)
            sent += len(chunk)
            if progress is not None:
                progress(sent, total)
