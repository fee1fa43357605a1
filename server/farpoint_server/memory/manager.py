"""Runs the batches of a device and trims its allocator between them, on the engine thread."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from farpoint_server.memory import procfs
from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.budget import Budget
from farpoint_server.memory.gate import Gate
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
from farpoint_server.memory.policy import Thresholds
from farpoint_server.memory.prediction import OBSERVED_BYTES, SAMPLE, UsageTracker
from farpoint_server.memory.snapshot import Counter, MemorySnapshot, Reason
from farpoint_server.memory.trimmer import DRAIN_S, Report, Trimmer, TrimRecord

Result = TypeVar("Result")


class Manager:
    """Answers batches, trims between them, and says what memory looks like.

    `snapshot`, `is_lost`, `check` and `failed` are for any thread, `run` and the trims for the two
    threads of the device's engine, that of long work and that of the rest: a trim still has the
    gate to itself. `run_inline` is for the event loop, while the latter has nothing to do.

    Args:
        allocator: The device's.
        thresholds: The policy's thresholds.
        gate: Shared by the managers that one trim would reach.
        limit: Most bytes that this process may hold; None: no limit of its own.
        reserve: Bytes of the device that predictions leave free.
        bounded: Whether work is refused when its predicted bytes do not fit.
        enabled: Whether the policy trims; recovery from out of memory and requests always do.
        report: Called with an event and its fields.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        allocator: Allocator,
        thresholds: Thresholds,
        gate: Gate,
        *,
        limit: int | None = None,
        reserve: int = 0,
        bounded: bool = False,
        enabled: bool = True,
        report: Report = lambda *_, **__: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocator = allocator
        self._gate = gate
        self._report = report
        self._clock = clock
        self._usage = usage = UsageTracker(allocator, clock)
        self._budget = Budget(allocator, usage, limit, reserve, bounded=bounded, clock=clock)
        self._trimmer = Trimmer(
            allocator,
            thresholds,
            gate,
            self._budget,
            usage,
            enabled=enabled,
            report=report,
            clock=clock,
        )
        self._refused = Counter()
        self.bounded = bounded
        """Whether work is refused when its predicted bytes do not fit."""
        self.is_lost = False
        """Whether the device works no more in this process."""
        self._snapshot = self._look()

    @property
    def snapshot(self) -> MemorySnapshot:
        """The latest look at memory; any thread may read it."""
        # A look may have begun before another thread found the device lost.
        return replace(self._snapshot, healthy=False) if self.is_lost else self._snapshot

    def hold(self) -> Callable[[], None]:
        """Has the batch that calls this count as in flight until what is returned is called."""
        return self._gate.hold_shared()

    def before_host_trim(self, give_back: Callable[[], None]) -> None:
        """Has `give_back` be called before each trim of host memory, with nothing in flight."""
        self._trimmer.before_host_trim.append(give_back)

    def has_room_beside(self, predicted: int, kind: str = SAMPLE) -> bool:
        """Whether a batch fits beside those in flight, uncut, and with nothing to be flushed."""
        return self._budget.has_room_beside(predicted, kind)

    def failed(self, error: Exception) -> Exception:
        """What an error of a batch means: DeviceLost if the device works no more."""
        if not is_sticky(error):
            return error
        self.is_lost = True
        return DeviceLost(str(error).splitlines()[0])

    def check(self, predicted: int, kind: str = SAMPLE) -> None:
        """Raises TooLarge for work of `predicted` bytes that this device can never do."""
        try:
            self._budget.check(predicted, kind)
        except TooLarge:
            self._refused.add(1)
            raise

    def run(
        self,
        batch: Batch,
        forward: Callable[[Batch], list[Answer]],
        explain: Callable[[OutOfMemory | DeviceLost], Exception] = lambda finding: finding,
    ) -> list[Answer | Exception]:
        """The answer to each request of a batch, or what is said to it instead.

        Args:
            batch: Given to `forward` as it is, if neither a bound nor a lack of memory cuts it.
            forward: Answers a batch; the answers lie in host memory when it returns.
            explain: What callers are told of a finding; by default itself.

        Raises:
            DeviceLost: now or earlier, the device failed for good; or what that is explained as.
        """
        answers: list[Any]
        try:
            if not self.bounded or len(batch) == 1:
                answers = self._run_part(batch, forward)
            else:
                answers = [a for part in self._parts(batch) for a in self._run_part(part, forward)]
        except DeviceLost as lost:
            told = explain(lost)
            if told is lost:
                raise
            raise told from lost
        refused = 0
        for index, answer in enumerate(answers):
            if isinstance(answer, OutOfMemory):
                answers[index] = explain(answer)
                refused += 1
        if refused:
            self._refused.add(refused)
            self._snapshot = self._look()
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
            self._trimmer.last_work = self._clock()

    def poll(self, waiting: int) -> TrimRecord | None:
        """Looks at memory, and trims if the policy asks for it and nothing is in flight.

        Args:
            waiting: Requests in the queue.
        """
        if self.is_lost:
            return None
        return self._looked(self._trimmer.poll(waiting))

    def trim_if_idle(self, waiting: int) -> TrimRecord | None:
        """Trims now if nothing is in flight or queued, because somebody asked."""
        if self.is_lost or waiting:
            return None
        return self._looked(self._trimmer.trim_if_idle())

    def trim(self) -> TrimRecord | None:
        """Trims as soon as the batches of all engines are done; None if they take too long."""
        return None if self.is_lost else self._looked(self._trimmer.trim(Reason.REQUEST))

    def dump(self) -> bytes | None:
        """Every segment and block, pickled for torch's viewer; None where there is none."""
        return None if self.is_lost else self._allocator.snapshot()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch, cut where its predicted bytes pass a share of what is there."""
        most = self._budget.batch_bytes()
        begin = size = 0
        correction = self._usage.correction_of(batch.kind)
        for end in range(len(batch)):
            more = correction.apply(batch[end : end + 1].predicted_bytes)
            if end > begin and size + more > most:
                yield batch[begin:end]
                begin, size = end, 0
            size += more
        yield batch if begin == 0 else batch[begin:]

    def _run_part(
        self, part: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer | OutOfMemory]:
        if self.bounded and not self._may_begin(part):
            # What is predicted not to fit now may fit in halves.
            refusal = "others hold the memory that the request needs"
            return run_in_halves(part, lambda half: self._run_part(half, forward), refusal)
        answers = self._attempt(part, forward)
        if answers is not None:
            return [*answers]
        recovery: OomRecovery[Batch, Answer] = OomRecovery(
            lambda batch: self._attempt(batch, forward), partial(self._recover, part.kind)
        )
        recovered = recovery.run(part)
        self._count_oom()
        return recovered

    def _may_begin(self, part: Batch) -> bool:
        """Whether a batch fits now, or else after those that run beside it on other threads."""
        may_begin = partial(
            self._budget.may_begin,
            part.predicted_bytes,
            part.kind,
            alone=len(part) == 1,
            trim=self._make_room,
        )
        if may_begin():
            return True
        is_shared = self._gate.readers > 0
        return is_shared and self._gate.wait_until_empty(DRAIN_S) and may_begin()

    def _make_room(self) -> None:
        self._looked(self._trimmer.make_room())

    def _attempt(
        self, batch: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer] | None:
        if self.is_lost:
            raise DeviceLost("the device failed earlier")
        try:
            with self._gate.reading():
                size, kind = batch.predicted_bytes, batch.kind
                return self._usage.watch(partial(forward, batch), size, kind)
        except Exception as error:
            if is_sticky(error):
                raise self.failed(error) from error
            if not is_out_of_memory(error):
                raise
        finally:
            self._trimmer.last_work = self._clock()
        # By now the exception is gone, and with it the frames whose variables held tensors.
        return None

    def _recover(self, kind: str) -> None:
        """After a failed attempt: garbage, drain, trim."""
        self._usage.ran_out(kind)
        gc.collect()
        self._looked(self._trimmer.trim(Reason.OUT_OF_MEMORY))

    def _count_oom(self) -> None:
        self._trimmer.ooms.add(self._clock())
        self._report("out_of_memory", device=self._allocator.name, count=self._trimmer.ooms.count)
        self._snapshot = self._look()

    def _looked(self, trim: TrimRecord | None) -> TrimRecord | None:
        self._snapshot = self._look()
        return trim

    def _look(self) -> MemorySnapshot:
        now, stats = self._clock(), self._allocator.stats()
        return MemorySnapshot(
            device=self._allocator.name,
            taken=now,
            stats=stats,
            room=self._budget.room(stats),
            limit=self._budget.limit,
            demand=self._usage.demand,
            correction=self._usage.correction,
            trims=self._trimmer.trims,
            oom_count=self._trimmer.ooms.count,
            refused=self._refused.value,
            resident=procfs.resident_bytes(),
            healthy=not self._trimmer.ooms.is_unhealthy,
        )
