"""Out-of-memory recovery: trim, run the batch again, and cut it until it fits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

# How torch's CPU allocator words it, in a plain RuntimeError.
_CPU_OOM = ("can't allocate memory", "not enough memory")
_CUDA_ERROR_MEMORY_ALLOCATION = 2


class OutOfMemory(Exception):  # noqa: N818  a finding, which may be an answer
    """One request needs more memory than there is, even alone and after a trim."""


class TooLarge(OutOfMemory):
    """One request needs more than the device could ever give."""


class DeviceLost(Exception):  # noqa: N818
    """The device does not work any more in this process; only a restart helps."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a GPU or on the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, torch.AcceleratorError):
        return getattr(error, "error_code", None) == _CUDA_ERROR_MEMORY_ALLOCATION
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_OOM)


def is_sticky(error: BaseException) -> bool:
    """Whether every later call on the device will fail too: an illegal address, a lost GPU."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


Answer = TypeVar("Answer")
Batch = TypeVar("Batch", bound="SliceableBatch")


class SliceableBatch(Protocol):
    """Requests that run together, and can be cut where memory is short."""

    @property
    def kind(self) -> str:
        """What they are, and of which model: their like take as much more or less memory."""
        ...

    @property
    def predicted_bytes(self) -> int:
        """Bytes that it takes on the device, inputs and answers included."""
        ...

    def __len__(self) -> int:
        """Requests."""
        ...

    def __getitem__(self: Batch, requests: slice) -> Batch:
        """A batch of some of the requests."""
        ...

    def halve(self: Batch) -> tuple[Batch, Batch] | None:
        """Two parts of a batch of one request; None where it cannot be cut."""
        ...

    def join(self, first: Any, second: Any) -> Any:
        """The answer to a halved request from those to its halves, of which this is the first."""
        ...


@dataclass(frozen=True)
class OomRecovery(Generic[Batch, Answer]):
    """Trims and tries again, in halves, down to one cloud; then that request fails alone.

    Args:
        attempt: Runs a batch; None when memory ran out. Once it has returned, nothing of a failed
            batch may be referenced any more.
        recover: Drops garbage, drains the device and trims.
    """

    attempt: Callable[[Batch], list[Answer] | None]
    recover: Callable[[], None]

    def run(self, batch: Batch) -> list[Answer | OutOfMemory]:
        """The answer to each request of a batch whose first attempt ran out of memory."""
        self.recover()
        if len(batch) == 1:
            # The trim may have made room, and then the request need not be cut.
            answers = self.attempt(batch)
            if answers is not None:
                return [*answers]
        refusal = "memory ran out while the request was worked on"
        return run_in_halves(batch, self._run_half, refusal)

    def _run_half(self, half: Batch) -> list[Answer | OutOfMemory]:
        answers = self.attempt(half)
        return self.run(half) if answers is None else [*answers]


def run_in_halves(
    batch: Batch, run: Callable[[Batch], list[Answer | OutOfMemory]], refusal: str
) -> list[Answer | OutOfMemory]:
    """The answers of `run` to two halves of a batch, or of its only request, joined again.

    Args:
        batch: One request or more.
        run: Answers half of it.
        refusal: What is said to a request that cannot be halved.
    """
    if len(batch) > 1:
        middle = len(batch) // 2
        return [*run(batch[:middle]), *run(batch[middle:])]
    halves = batch.halve()
    if halves is None:
        return [OutOfMemory(refusal)]
    (answer,) = run(halves[0])
    if isinstance(answer, OutOfMemory):
        return [answer]
    (rest,) = run(halves[1])
    return [rest if isinstance(rest, OutOfMemory) else halves[0].join(answer, rest)]
