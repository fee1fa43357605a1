"""Runs a device's forwards and its trims, on the one thread that owns the device."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from farpoint_server.memory import policy, resident
from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.budget import Budget
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.meter import OBSERVED_BYTES, Meter
from farpoint_server.memory.oom import (
    Answer,
    Batch,
    DeviceLost,
    OomRecovery,
    OutOfMemory,
    TooLarge,
    is_out_of_memory,
    is_sticky,
    run_in_halves,
)
from farpoint_server.memory.policy import History, Level, Limits, Signals
from farpoint_server.memory.snapshot import MemorySnapshot, Reason
from farpoint_server.memory.strain import Strain
from farpoint_server.memory.trimmer import Report, Trim, Trimmer

# A batch that takes half of what there is leaves room for the next one's copy.
BATCH_SHARE = 0.5
DRAIN_S = 10.0

Result = TypeVar("Result")


class Manager:
    """Answers batches, trims between them, and says what memory looks like.

    Everything but `snapshot`, `is_lost`, `check` and `failed` belongs to the engine's thread; so
    does `run_inline`, which the event loop may call while that thread has nothing to do.

    Args:
        allocator: The device's.
        limits: The policy's thresholds.
        gate: Shared by the managers that one trim would reach.
        limit: Most bytes that this process may hold; 0 is no limit of its own.
        reserve: Bytes of the device that predictions leave free.
        bounded: Whether work is refused when its predicted bytes do not fit.
        enabled: Whether the policy trims; the ladder and requests always do.
        report: Called with an event and its fields.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        allocator: Allocator,
        limits: Limits,
        gate: Gate,
        *,
        limit: int = 0,
        reserve: int = 0,
        bounded: bool = False,
        enabled: bool = True,
        report: Report = lambda *_, **__: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocator = allocator
        self._limits = limits
        self._gate = gate
        self._enabled = enabled
        self._report = report
        self._clock = clock
        self._trimmer = Trimmer(allocator, gate, report)
        self._budget = Budget(allocator, limit, reserve, bounded=bounded, clock=clock)
        self._history = History()
        self._meter = Meter(allocator, clock)
        self._strain = Strain()
        self._last_work = clock()
        self._rungs = self._refused = 0
        self.is_lost = False
        """Whether the device works no more in this process."""
        self.snapshot = self._look()
        """The latest look at memory; any thread may read it."""

    def hold(self) -> Callable[[], None]:
        """Has the forward that calls this count as in flight until what is returned is called."""
        return self._gate.stay()

    def before_host_trim(self, give_back: Callable[[], None]) -> None:
        """Has `give_back` be called before each trim of host memory, with nothing in flight."""
        self._trimmer.before_host_trim.append(give_back)

    def has_room_beside(self, predicted: int) -> bool:
        """Whether a batch fits beside those in flight, uncut, and with nothing to be flushed."""
        if not self._budget.bounded:
            return True
        needed, stats = self._meter.correction.apply(predicted), self._allocator.stats()
        room = self._budget.room(stats)
        cached_or_free = max(stats.idle, room.free - self._budget.reserve)
        share = BATCH_SHARE * self._budget.available(stats, room)
        return needed <= min(cached_or_free, share)

    def failed(self, error: Exception) -> Exception:
        """What an error after a forward means: DeviceLost if the device works no more."""
        if not is_sticky(error):
            return error
        self.is_lost = True
        # Not a new look: the device would not answer.
        self.snapshot = replace(self.snapshot, healthy=False)
        return DeviceLost(str(error).splitlines()[0])

    def check(self, predicted: int) -> None:
        """Raises TooLarge for work of `predicted` bytes that this device can never do."""
        needed = self._meter.correction.optimistic(predicted)
        if self._budget.bounded and needed > self._budget.capacity:
            self._refused += 1
            raise TooLarge(
                f"the request needs about {needed} bytes on {self._allocator.name}, which can give "
                f"{self._budget.capacity} at most"
            )

    def run(
        self, batch: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer | OutOfMemory]:
        """The answer to each request of a batch, or what is said to it instead.

        Args:
            batch: Given to `forward` as it is, if neither a bound nor a lack of memory cuts it.
            forward: Answers a batch; the answers lie in host memory when it returns.

        Raises:
            DeviceLost: now or earlier, the device failed for good.
        """
        answers: list[Answer | OutOfMemory] = []
        for part in self._parts(batch):
            done = self._run_part(part, forward)
            answers.extend(done)
        refused = sum(isinstance(answer, OutOfMemory) for answer in answers)
        if refused:
            self._refused += refused
            self.snapshot = self._look()
        return answers

    def run_inline(self, forward: Callable[[], Result], predicted: int) -> Result | None:
        """Runs work too small to be budgeted, while the engine's thread has nothing to do.

        Args:
            forward: Answers it. What it raises says nothing of the device yet.
            predicted: Bytes that it takes on the device.

        Returns:
            None, with nothing done, if this is no moment for it or it is not so small.
        """
        if self.is_lost or predicted >= OBSERVED_BYTES or not self._gate.enter():
            return None
        try:
            return forward()
        finally:
            self._gate.leave()
            self._last_work = self._clock()

    def tend(self, waiting: int) -> Trim | None:
        """Looks at memory, and trims if the policy asks for it and nothing is in flight.

        Args:
            waiting: Requests in the queue.
        """
        if self.is_lost:
            return None
        signals = self._signals(waiting)
        level, self._history = policy.decide(signals, self._history, self._limits)
        trim = None
        if level is not None and self._enabled:
            trim = self._trimmer.attempt(Reason(level.value), host=level is Level.IDLE)
        elif self._strain.is_unwell and self._is_due(signals.now):
            trim = self._trimmer.attempt(Reason.OUT_OF_MEMORY, host=True)
        self._after(trim, signals, level)
        return trim

    def trim_if_idle(self, waiting: int) -> Trim | None:
        """Trims now if nothing is in flight or queued, because somebody asked."""
        if self.is_lost or waiting:
            return None
        signals = self._signals(waiting)
        trim = self._trimmer.attempt(Reason.REQUEST, host=True)
        self._after(trim, signals, None)
        return trim

    def trim(self) -> Trim | None:
        """Trims as soon as the forwards of all engines are done; None if they take too long."""
        return None if self.is_lost else self._insist(Reason.REQUEST)

    def dump(self) -> bytes | None:
        """Every segment and block, pickled for torch's viewer; None where there is none."""
        return None if self.is_lost else self._allocator.snapshot()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch, cut where its predicted bytes pass a share of what is there."""
        if not self._budget.bounded or len(batch) == 1:
            yield batch
            return
        most = BATCH_SHARE * self._available()
        begin = size = 0
        for end in range(len(batch)):
            more = self._meter.correction.apply(batch[end : end + 1].predicted_bytes)
            if end > begin and size + more > most:
                yield batch[begin:end]
                begin, size = end, 0
            size += more
        yield batch if begin == 0 else batch[begin:]

    def _run_part(
        self, part: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer | OutOfMemory]:
        if not self._may_begin(part.predicted_bytes, alone=len(part) == 1):
            # What is predicted not to fit now may fit in halves.
            refusal = "others hold the memory that the request needs"
            return run_in_halves(part, lambda half: self._run_part(half, forward), refusal)
        rungs = self._rungs
        recovery: OomRecovery[Batch, Answer] = OomRecovery(
            lambda batch: self._attempt(batch, forward), self._recover
        )
        answers = recovery.run(part)
        if self._rungs > rungs:
            self._count_ladder()
        return answers

    def _may_begin(self, predicted: int, *, alone: bool) -> bool:
        if not self._budget.bounded or predicted < OBSERVED_BYTES:
            return True
        return self._make_room(predicted, alone=alone)

    def _make_room(self, predicted: int, *, alone: bool) -> bool:
        """Whether a batch may begin, after a trim where only that can make it fit.

        If neither the cache nor the rest of the device can hold the batch, but both together can,
        the allocator would flush its cache itself, in the middle of the forward.
        """
        needed = self._meter.correction.apply(predicted)
        stats = self._allocator.stats()
        room = self._budget.room(stats)
        if needed > max(stats.idle, room.free - self._budget.reserve):
            room = self._budget.room(stats, max_age_s=0)
            if stats.releasable and needed > room.free - self._budget.reserve:
                signals = self._signals(waiting=0)
                self._after(self._trimmer.attempt(Reason.ROOM, host=False), signals, Level.HARD)
                stats = self._allocator.stats()
                room = self._budget.room(stats, max_age_s=0)
        # A single request is given a chance that a wrong correction must not take from it.
        least = self._meter.correction.optimistic(predicted) if alone else needed
        return least <= max(stats.idle, self._budget.available(stats, room))

    def _available(self) -> int:
        stats = self._allocator.stats()
        return self._budget.available(stats, self._budget.room(stats))

    def _attempt(
        self, batch: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer] | None:
        if self.is_lost:
            raise DeviceLost("the device failed earlier")
        try:
            with self._gate.reading():
                return self._meter.watch(partial(forward, batch), batch.predicted_bytes)
        except Exception as error:
            if is_sticky(error):
                raise self.failed(error) from error
            if not is_out_of_memory(error):
                raise
        finally:
            self._last_work = self._clock()
        # By now the exception is gone, and with it the frames whose variables held tensors.
        return None

    def _recover(self) -> None:
        """After a failed attempt: garbage, drain, trim."""
        self._rungs += 1
        self._meter.ran_out()
        gc.collect()
        self._insist(Reason.OUT_OF_MEMORY)

    def _count_ladder(self) -> None:
        self._strain.count(self._clock())
        self._report("out_of_memory", device=self._allocator.name, ladders=self._strain.ladders)
        self.snapshot = self._look()

    def _insist(self, reason: Reason) -> Trim | None:
        signals = self._signals(waiting=0)
        trim = self._trimmer.insist(reason, DRAIN_S)
        self._after(trim, signals, None)
        return trim

    def _after(self, trim: Trim | None, signals: Signals, level: Level | None) -> None:
        if trim is not None:
            self._history = policy.trimmed(signals, self._history, trim.left, level)
            room = self._budget.room(trim.left, max_age_s=0)
            self._strain.relieve(has_room=room.free >= self._limits.low_water(room))
        self.snapshot = self._look()

    def _is_due(self, now: float) -> bool:
        last = self._history.last_trim
        return last is None or now - last >= self._limits.interval_s

    def _signals(self, waiting: int) -> Signals:
        now, stats = self._clock(), self._allocator.stats()
        return Signals(
            now=now,
            stats=stats,
            room=self._budget.room(stats),
            demand=self._meter.demand,
            waiting=waiting,
            last_work=self._last_work,
        )

    def _look(self) -> MemorySnapshot:
        now, stats = self._clock(), self._allocator.stats()
        return MemorySnapshot(
            device=self._allocator.name,
            taken=now,
            stats=stats,
            room=self._budget.room(stats),
            limit=self._budget.limit,
            demand=self._meter.demand,
            correction=self._meter.correction,
            trims=self._trimmer.trims,
            ladders=self._strain.ladders,
            refused=self._refused,
            resident=resident.resident_bytes(),
            healthy=not (self._strain.is_unwell or self.is_lost),
        )
