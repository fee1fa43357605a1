"""Running out of memory: the budget of batches, the errors, and batches cut in halves."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from farpoint_server.compute.memory.snapshot import Allocator, Headroom, Stats

# Texts of torch's CPU allocator, in a plain RuntimeError.
_CPU_OOM = ("can't allocate memory", "not enough memory")
_CUDA_ERROR_MEMORY_ALLOCATION = 2
# Half of the memory is left for the copies of the next batch.
BATCH_SHARE = 0.5
# Of the memory, for what batches cannot use.
ASIDE_SHARE = 1 / 8
# mem_get_info is a driver call.
HEADROOM_AGE_S = 1.0
# Batches that are smaller are not checked before they begin.
SMALL_BYTES = 1 << 20


class OutOfMemory(Exception):  # noqa: N818  may be an answer
    """A request needs more memory than is available, even alone and after a trim."""


class TooLarge(OutOfMemory):
    """A request needs more memory than the device has."""


class DeviceLost(Exception):  # noqa: N818
    """The device no longer works in this process; only a restart helps."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a GPU or on the host."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, torch.AcceleratorError):
        return getattr(error, "error_code", None) == _CUDA_ERROR_MEMORY_ALLOCATION
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_OOM)


def is_sticky(error: BaseException) -> bool:
    """Whether every later call on the device fails too: an illegal address, a lost GPU."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


Answer = TypeVar("Answer")
Batch = TypeVar("Batch", bound="SliceableBatch")


class SliceableBatch(Protocol):
    """Requests that run together and can be cut if memory is short."""

    @property
    def predicted_bytes(self) -> int:
        """Maximum bytes on the device, including inputs and answers."""

    def __len__(self) -> int:
        """Requests."""

    def __getitem__(self: Batch, requests: slice) -> Batch:
        """A batch of some of the requests."""

    def halve(self: Batch) -> tuple[Batch, Batch] | None:
        """Two parts of a batch of one request; None if it cannot be cut."""

    def join(self, first: Any, second: Any) -> Any:
        """Joins the answers to the halves of a request; this is the first half."""


def run_in_halves(
    batch: Batch, run: Callable[[Batch], list[Answer | OutOfMemory]], refusal: str
) -> list[Answer | OutOfMemory]:
    """The joined answers of `run` for two halves of a batch or of its only request.

    A request that cannot be halved is answered with an error of the text `refusal`.
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


class Aside:
    """Cached bytes that batches cannot use until a trim, by owner.

    Args:
        limit: Maximum, but for what an owner took last.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._held: dict[int, int] = {}

    @property
    def size(self) -> int:
        """Bytes of all owners."""
        return sum([*self._held.values()])

    @property
    def is_full(self) -> bool:
        """Whether owners should take no more."""
        return self.size >= self._limit

    def put(self, owner: object, size: int) -> None:
        """Says how many bytes an owner holds."""
        self._held[id(owner)] = size


class Budget:
    """Memory that a device has for batches, now and at best.

    Args:
        limit: Maximum bytes of this process; None for the whole device.
        reserve: Bytes of the device that stay free for libraries and the context.
    """

    def __init__(
        self, allocator: Allocator, limit: int | None, reserve: int, clock: Callable[[], float]
    ) -> None:
        self.limit = limit
        self._allocator = allocator
        self._reserve = reserve
        self._clock = clock
        stats = allocator.stats()
        # Replaced as a whole, since all threads of the engine read it.
        self._seen = headroom, _, _ = allocator.headroom(), stats.reserved, clock()
        total = headroom.total - reserve
        best = total if limit is None else min(limit, total)
        self._capacity = max(0, best - stats.allocated)
        self.aside = Aside(ASIDE_SHARE * self._capacity)
        """Cached bytes that batches cannot use."""

    def headroom(self, stats: Stats, max_age_s: float = HEADROOM_AGE_S) -> Headroom:
        """The device's headroom; the use by other processes is at most `max_age_s` old."""
        now, (headroom, reserved, seen) = self._clock(), self._seen
        if now - seen >= max_age_s:
            self._seen = headroom, reserved, _ = self._allocator.headroom(), stats.reserved, now
        free = headroom.free + reserved - stats.reserved
        return Headroom(min(max(0, free), headroom.total), headroom.total)

    def check(self, predicted: int) -> None:
        """Raises TooLarge for a request of `predicted` bytes that can never fit this device."""
        if predicted > self._capacity:
            raise TooLarge(
                f"the request needs about {predicted} bytes on {self._allocator.name}, which can "
                f"give {self._capacity} at most"
            )

    def leaves_room(self, predicted: int, *, without_flush: bool = False) -> bool:
        """Whether a batch leaves memory for the next one, perhaps without a flush of the cache."""
        if predicted < SMALL_BYTES:
            return True
        stats = self._allocator.stats(host=False)
        headroom = self.headroom(stats)
        if without_flush and predicted > self._uninterrupted(stats, headroom):
            return False
        return predicted <= BATCH_SHARE * self._available(stats, headroom)

    def may_begin(self, predicted: int, trim: Callable[[], object]) -> bool:
        """Whether a batch may start, after a `trim` if it fits only then.

        If neither the cache nor the free memory can hold the batch, but both together can, the
        allocator would flush its cache itself, in the middle of the batch.
        """
        if predicted < SMALL_BYTES:
            return True
        stats = self._allocator.stats(host=False)
        headroom = self.headroom(stats)
        if predicted > self._uninterrupted(stats, headroom):
            headroom = self.headroom(stats, max_age_s=0)
            if stats.releasable and predicted > headroom.free - self._reserve:
                trim()
                stats = self._allocator.stats(host=False)
                headroom = self.headroom(stats, max_age_s=0)
        return predicted <= max(self._idle(stats), self._available(stats, headroom))

    def _uninterrupted(self, stats: Stats, headroom: Headroom) -> int:
        """Bytes that a batch may take now without a flush of the cache."""
        return max(self._idle(stats), headroom.free - self._reserve)

    def _idle(self, stats: Stats) -> int:
        """Cached bytes for batches."""
        return stats.idle - self.aside.size

    def _available(self, stats: Stats, headroom: Headroom) -> int:
        """Bytes that a batch may take now, after a trim if necessary."""
        limit = headroom.total if self.limit is None else self.limit
        left = headroom.free + stats.releasable - self._reserve
        return max(0, min(limit - stats.allocated, left))
