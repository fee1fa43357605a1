"""What passes between the codec, the batcher and the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Clouds:
    """The clouds of one request, one after the other, checked and ready to be sampled."""

    points: Float32s
    """Shape (P, 3)."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""
    sample_counts: Int64s
    """Shape (B,)."""
    starts: Int64s
    """Shape (B,): row of each cloud, from its own first row, that is chosen first."""
    with_distances: bool = False

    @property
    def samples(self) -> int:
        """Points that are wanted of all clouds together."""
        counts = self.sample_counts
        return int(counts[0]) if len(counts) == 1 else int(counts.sum())


class Batch:
    """Requests that run in one launch, each of which may be given up while it runs.

    Attributes:
        requests: In order.
        cancelled: Shape (B,), a flag for each cloud of all requests. The CPU kernel reads it
            before every pick: what is nonzero is no longer worked on, and its samples mean
            nothing. It is written on the event loop while the engine's thread reads it; an
            aligned int32 is stored whole, and a flag that is seen late costs time alone.
    """

    def __init__(self, requests: Sequence[Clouds], cancelled: Int32s | None = None) -> None:
        self.requests = tuple(requests)
        self._ends = list(accumulate([len(clouds.lengths) for clouds in requests]))
        if cancelled is None:
            cancelled = np.zeros(self._ends[-1], np.int32)
        self.cancelled = cancelled

    def give_up(self, index: int) -> None:
        """Has the clouds of the request at `index` be left unfinished."""
        end = self._ends[index]
        self.cancelled[end - len(self.requests[index].lengths) : end] = 1


class Samples(NamedTuple):
    """The answer to one Clouds: its S samples, one cloud after the other."""

    rows: Int32s
    """Shape (S,): rows of `Clouds.points`."""
    distances: Float32s | None
    """Shape (S,): covering radius of each prefix; None if not asked for."""


class Outcome(NamedTuple):
    """Samples and where the time went."""

    samples: Samples
    queue_ms: float
    compute_ms: float
