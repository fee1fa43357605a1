"""A batch: requests with one batch key that run together and can be cut, joined and cancelled."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Generic

import numpy as np

from farpoint_server.compute.arrays import Array, Int32s
from farpoint_server.compute.work import Answer, Launch, Work, run_on_cpu


class Batch(Generic[Answer]):
    """Requests of one kind.

    Attributes:
        works: In order.
        cancelled: Shape (B,), a flag for each cloud of all requests, shared with all slices. The
            CPU kernel reads it before every sample and stops at clouds that are cancelled. It is
            written on the event loop while an engine's thread reads it; an aligned int32 is stored
            atomically, and a flag that is read late only costs time.
        cpu_s: Seconds of CPU that it took, where an engine has counted them.
    """

    def __init__(self, works: Sequence[Work[Answer]], cancelled: Int32s | None = None) -> None:
        self.works = works
        self.cpu_s: float | None = None
        self._ends = list(accumulate([work.cloud_count for work in works]))
        self.cancelled = np.zeros(self._ends[-1], np.int32) if cancelled is None else cancelled

    @property
    def point_count(self) -> int:
        """Points of all clouds."""
        return sum([work.point_count for work in self.works])

    @property
    def predicted_bytes(self) -> int:
        """Maximum bytes on the device, including inputs and answers."""
        return self.works[0].batch_bytes(self.works)

    def __len__(self) -> int:
        """Requests."""
        return len(self.works)

    def __getitem__(self, requests: slice) -> "Batch[Answer]":
        begin, end, _ = requests.indices(len(self))
        first = self._ends[begin - 1] if begin else 0
        return Batch(self.works[requests], self.cancelled[first : self._ends[end - 1]])

    def cancel(self, index: int) -> None:
        """Cancels the clouds of the request at `index`."""
        self.cancelled[self._clouds(index)] = 1

    def halve(self) -> "tuple[Batch[Answer], Batch[Answer]] | None":
        """Two parts of the only request, of about as many clouds; None where it cannot be cut."""
        (work,) = self.works
        halves = work.halve()
        if halves is None:
            return None
        middle = halves[0].cloud_count
        first, second = self.cancelled[:middle], self.cancelled[middle:]
        return Batch(halves[:1], first), Batch(halves[1:], second)

    def join(self, first: Any, second: Any) -> Any:
        """The answer from those to the halves, of which this is the first; None if cancelled."""
        return None if first is None or second is None else self.works[0].join(first, second)

    def wanted(self) -> list[int]:
        """Indices of the requests that are not cancelled."""
        if not self.cancelled.any():  # the common case
            return list(range(len(self)))
        return [i for i in range(len(self)) if not self.cancelled[self._clouds(i)].all()]

    def launches(self, wanted: Sequence[int]) -> Sequence[Launch]:
        """The launches of some requests."""
        return self.works[0].launches([self.works[i] for i in wanted]) if wanted else ()

    def answers(
        self, wanted: Sequence[int], outputs: Sequence[Sequence[Array]]
    ) -> list[Answer | None]:
        """The answer to each request, None if not wanted, from the outputs of each launch."""
        answers: list[Answer | None] = [None] * len(self)
        if wanted:
            found = self.works[0].answers([self.works[i] for i in wanted], outputs)
            for index, answer in zip(wanted, found, strict=True):
                answers[index] = answer
        return answers

    def run_on_cpu(self) -> list[Answer | None]:
        """The answer to each request, computed on the calling thread."""
        wanted, flags = self.wanted(), self.cancelled
        if len(wanted) < len(self):  # those that are cancelled from now on are finished
            flags = np.zeros(sum(self.works[i].cloud_count for i in wanted), np.int32)
        outputs = [run_on_cpu(launch, flags) for launch in self.launches(wanted)]
        return self.answers(wanted, outputs)

    def _clouds(self, index: int) -> slice:
        end = self._ends[index]
        return slice(end - self.works[index].cloud_count, end)
