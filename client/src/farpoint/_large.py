"""Requests above the server's message limit, sent in pieces."""

from collections.abc import Iterator

from farpoint.v1 import sampling_pb2 as pb

# No server's limit is lower in practice, so a smaller request need not ask for it.
CERTAINLY_SMALL_BYTES = 1 << 20
# Large enough that the cost of a message does not count, small enough to be sent while the next
# piece is packed.
PIECE_BYTES = 1 << 20


def needs_limit(request: pb.SampleRequest) -> bool:
    """Whether it depends on the server's limit how a request is sent."""
    return request.ByteSize() > CERTAINLY_SMALL_BYTES


def pieces(request: pb.SampleRequest, limit: int) -> Iterator[pb.SampleLargeRequest]:
    """The messages of a SampleLarge.

    Args:
        request: As for Sample; the data of its points is taken out.
        limit: Bytes that one message may have.
    """
    data = memoryview(request.points.data)
    request.points.ClearField("data")
    yield pb.SampleLargeRequest(request=request)
    step = max(1, min(PIECE_BYTES, limit // 2))
    for begin in range(0, len(data), step):
        yield pb.SampleLargeRequest(points_data=bytes(data[begin : begin + step]))
