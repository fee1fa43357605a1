"""The SampleLarge RPC: a Sample request above the server's message limit, as a client stream."""

from collections.abc import Iterator
from operator import attrgetter

from farpoint._call import CallContext
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.sample import SampleRpc
from farpoint.results import Sample
from farpoint.v1 import sampling_pb2 as pb

# No server's limit is lower in practice, so a smaller request need not ask for it.
CERTAINLY_ACCEPTED_BYTES = 1 << 20
# Large enough that the cost of a message does not count, small enough to be sent while the next
# chunk is packed.
CHUNK_BYTES = 1 << 20


class UploadRpc(UnaryRpc[pb.SampleLargeResponse, Sample | list[Sample]]):
    """A `SampleRpc` in several messages.

    Args:
        rpc: as for Sample; the data of its points is taken out while they are sent.
        limit: bytes that one message may have.
    """

    method = attrgetter("sampling.SampleLarge")

    def __init__(self, rpc: SampleRpc, limit: int) -> None:
        self._rpc = rpc
        self.request = _messages(rpc, min(CHUNK_BYTES, limit // 2))

    def read(self, response: pb.SampleLargeResponse, context: CallContext) -> Sample | list[Sample]:
        return self._rpc.read(response.response, context)


def _messages(rpc: SampleRpc, chunk_bytes: int) -> Iterator[pb.SampleLargeRequest]:
    """The request without the data of its points, then the data in chunks."""
    pieces = rpc.data
    if not pieces:
        pieces = [memoryview(rpc.head.points.data)]
        rpc.head.points.ClearField("data")
    yield pb.SampleLargeRequest(request=rpc.head)
    step = max(1, chunk_bytes)
    for data in pieces:
        for begin in range(0, len(data), step):
            yield pb.SampleLargeRequest(points_data=bytes(data[begin : begin + step]))
