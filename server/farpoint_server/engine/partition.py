"""Batches that memory manager may cut: by request, and a request by cloud."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from farpoint_server.engine.types import Batch, Clouds, Int32s, Samples
from farpoint_server.memory.prediction import sample_bytes


@dataclass(frozen=True)
class Piece:
    """Clouds of one request, all or some of them."""

    clouds: Clouds
    flags: Int32s
    """`Batch.cancelled` of the whole batch."""
    first: int
    """The first of the clouds within the whole batch."""

    @property
    def end(self) -> int:
        return self.first + len(self.clouds.lengths)


def cut(batch: Batch) -> list[Piece]:
    """One piece for each request."""
    pieces = []
    first = 0
    for clouds in batch.requests:
        pieces.append(Piece(clouds, batch.cancelled, first))
        first = pieces[-1].end
    return pieces


def join(pieces: Sequence[Piece]) -> Batch:
    """Neighboring pieces as a batch; giving a request up still reaches it."""
    flags = pieces[0].flags[pieces[0].first : pieces[-1].end]
    return Batch([piece.clouds for piece in pieces], flags)


def is_whole(pieces: Sequence[Piece]) -> bool:
    """Whether these are all that a batch was cut into."""
    return pieces[0].first == 0 and pieces[-1].end == len(pieces[0].flags)


def predict(pieces: Sequence[Piece]) -> int:
    """Bytes that the pieces take on the device together."""
    return sample_bytes(
        points=sum(len(piece.clouds.points) for piece in pieces),
        clouds=sum(len(piece.clouds.lengths) for piece in pieces),
        samples=sum(piece.clouds.samples for piece in pieces),
    )


def halve(piece: Piece) -> tuple[Piece, Piece] | None:
    """Two pieces of about as many clouds; None for a single cloud."""
    clouds = piece.clouds
    middle = len(clouds.lengths) // 2
    if middle == 0:
        return None
    row = int(clouds.lengths[:middle].sum())
    halves = (
        Clouds(
            clouds.points[rows],
            clouds.lengths[part],
            clouds.sample_counts[part],
            clouds.starts[part],
            clouds.with_distances,
        )
        for rows, part in (
            (slice(row), slice(middle)),
            (slice(row, None), slice(middle, None)),
        )
    )
    firsts = (piece.first, piece.first + middle)
    left, right = (
        Piece(half, piece.flags, first) for half, first in zip(halves, firsts, strict=True)
    )
    return left, right


def join_samples(left: Piece, first: Samples, second: Samples) -> Samples:
    """The answer to a request from those to its halves."""
    rows = np.concatenate([first.rows, second.rows + np.int32(len(left.clouds.points))])
    if first.distances is None or second.distances is None:
        return Samples(rows, None)
    return Samples(rows, np.concatenate([first.distances, second.distances]))
