"""Runs the batches of a device and trims its allocator between them, on the engine thread."""

import gc
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch

from farpoint_server.compute.memory import host
from farpoint_server.compute.memory.cuda import CudaAllocator
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.host import resident_bytes
from farpoint_server.compute.memory.oom import (
    Answer,
    Batch,
    Budget,
    DeviceLost,
    OutOfMemory,
    TooLarge,
    is_out_of_memory,
    is_sticky,
    run_in_halves,
)
from farpoint_server.compute.memory.policy import (
    CPU_THRESHOLDS,
    CUDA_THRESHOLDS,
    MIB,
    OomTracker,
    Thresholds,
    TrimPolicy,
)
from farpoint_server.compute.memory.snapshot import Allocator, MemorySnapshot, Reason, Trims

Result = TypeVar("Result")
Report = Callable[..., object]
# Seconds that what does not fit waits for the batches in flight.
DRAIN_S = 10.0
# Of a GPU, left free by predictions, for libraries that allocate memory themselves.
CUDA_RESERVE = 512 * MIB


@dataclass(frozen=True)
class TrimRecord:
    """One trim."""

    reason: Reason
    seconds: float
    returned_bytes: int


class Manager:
    """Runs batches and trims between them; the only caller of `Allocator.trim`.

    `check`, `snapshot`, `is_lost` and `translate` are for any thread, `run` and the trims for the
    threads of the device's engine: a trim has the gate to itself. `run_inline` is for the event
    loop, while the engine's thread for short work is idle.

    Args:
        gate: Shared by the managers whose memory one trim releases.
        limit: Maximum bytes of this process; None for no limit.
        reserve: Bytes of the device that predictions leave free.
        report: Called with an event and its fields.
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
        report: Report = lambda *_, **__: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocator = allocator
        self._policy = TrimPolicy(thresholds)
        self._gate = gate
        self._budget = Budget(allocator, limit, reserve, clock)
        self.aside = self._budget.aside
        """Cached memory that is kept from batches until a trim."""
        self.bounded = bounded
        """Whether work is refused when its predicted bytes do not fit."""
        self._report = report
        self._clock = clock
        self._ooms = OomTracker()
        self._counting, self._refused = threading.Lock(), 0
        self._last_work = clock()
        self._trims: dict[Reason, Trims] = {}
        self._before_trim: list[Callable[..., None]] = []
        self.is_lost = False
        """Whether the device no longer works in this process."""
        self._snapshot = self._take_snapshot()

    @property
    def snapshot(self) -> MemorySnapshot:
        """The latest snapshot of memory."""
        # The device may have been lost after the snapshot.
        return replace(self._snapshot, healthy=False) if self.is_lost else self._snapshot

    def before_trim(self, give_back: Callable[..., None]) -> None:
        """Registers a function to call before each trim, with nothing in flight.

        Its argument `host` says whether host memory is trimmed, too.
        """
        self._before_trim.append(give_back)

    def translate(self, error: Exception) -> Exception:
        """Translates a batch's error: DeviceLost if the device no longer works."""
        if not is_sticky(error):
            return error
        self.is_lost = True
        return DeviceLost(str(error).splitlines()[0])

    def forward(self) -> AbstractContextManager[None]:
        """A block in which a model may run on any thread: no trim runs meanwhile."""
        return self._gate.reading()

    def hold(self) -> Callable[[], None]:
        """Keeps the calling batch in flight until the returned function is called."""
        self._last_work = self._clock()
        return self._gate.hold_shared()

    def has_headroom(self, predicted: int) -> bool:
        """Whether a whole batch fits next to those in flight, without a flush of the cache."""
        return not self.bounded or self._budget.leaves_room(predicted, without_flush=True)

    def check(self, predicted: int) -> None:
        """Raises TooLarge for work of `predicted` bytes that can never fit this device."""
        if not self.bounded:
            return
        try:
            self._budget.check(predicted)
        except TooLarge:
            self._count_refused(1)
            raise

    def run(
        self,
        batch: Batch,
        forward: Callable[[Batch], list[Answer]],
        explain: Callable[[OutOfMemory | DeviceLost], Exception] = lambda finding: finding,
    ) -> list[Answer | Exception]:
        """The answer or the error of each request of a batch.

        Args:
            batch: Cut into parts where memory is short.
            forward: Answers a batch, in host memory.
            explain: Makes the caller's error of a finding; by default the finding itself.

        Raises:
            DeviceLost: the device no longer works; or what `explain` makes of it.
        """
        try:
            answers: list[Any] = self._run_part(batch, forward)
        except DeviceLost as lost:
            explained = explain(lost)
            if explained is lost:
                raise
            raise explained from lost
        refused = 0
        for index, answer in enumerate(answers):
            if isinstance(answer, OutOfMemory):
                answers[index] = explain(answer)
                refused += 1
        if refused:
            self._count_refused(refused)
            self._snapshot = self._take_snapshot()
        return answers

    def run_inline(self, forward: Callable[[], Result], predicted: int) -> Result | None:
        """Runs work without waiting for anything, while no other is cut for lack of memory.

        Returns None, and does nothing, if a trim runs or the predicted bytes do not fit.
        """
        if self.is_lost or not self.has_headroom(predicted) or not self._gate.enter():
            return None
        try:
            return forward()
        finally:
            self._gate.leave()
            self._last_work = self._clock()

    def poll(self, waiting: int) -> TrimRecord | None:
        """Reads memory, and trims if the policy requires it and nothing is in flight."""
        if self.is_lost:
            return None
        now, stats = self._clock(), self._allocator.stats()
        reason = self._policy.decide(
            now, stats, self._budget.headroom(stats), waiting=waiting, last_work=self._last_work
        )
        if reason is None and self._ooms.is_unhealthy and self._policy.is_due(now):
            reason = Reason.OUT_OF_MEMORY
        trim = None if reason is None else self._trim_if_quiet(reason)
        self._snapshot = self._take_snapshot()
        return trim

    def trim_if_idle(self, waiting: int) -> TrimRecord | None:
        """Trims on request if nothing is in flight or queued."""
        return None if waiting else self._trim_if_quiet(Reason.REQUEST)

    def trim(
        self, reason: Reason = Reason.REQUEST, patience_s: float = DRAIN_S
    ) -> TrimRecord | None:
        """Trims once the batches of all engines are done; None if that takes more seconds."""
        with self._gate.exclusive(patience_s) as entered:
            return self._trim(reason) if entered else None

    def _run_part(
        self, part: Batch, forward: Callable[[Batch], list[Answer]], *, is_again: bool = False
    ) -> list[Answer | OutOfMemory]:
        """The answers of a batch, in halves if it does not fit or memory runs out.

        Of one that ran out, `is_again` says that it is not counted any more.
        """
        if self.bounded and not self._may_begin(part):
            refusal = "others hold the memory that the request needs"
            run_half = partial(self._run_part, forward=forward, is_again=is_again)
            return run_in_halves(part, run_half, refusal)
        answers = self._attempt(part, forward)
        if answers is not None:
            return [*answers]
        gc.collect()
        self.trim(Reason.OUT_OF_MEMORY)
        # Now it may fit, and then a single request need not be cut.
        answers = self._attempt(part, forward) if len(part) == 1 else None
        found: list[Answer | OutOfMemory] = [*(answers or ())]
        if answers is None:
            run_half = partial(self._run_part, forward=forward, is_again=True)
            refusal = "memory ran out while the request was worked on"
            found = run_in_halves(part, run_half, refusal)
        if not is_again:
            self._ooms.add(self._clock())
            self._report("out_of_memory", device=self._allocator.name, count=self._ooms.count)
            self._snapshot = self._take_snapshot()
        return found

    def _may_begin(self, part: Batch) -> bool:
        """Whether a batch fits now, or after the batches of other threads."""
        predicted = part.predicted_bytes
        if len(part) > 1 and not self._budget.leaves_room(predicted):
            return False
        may_begin = partial(
            self._budget.may_begin, predicted, partial(self._trim_if_quiet, Reason.ROOM)
        )
        if may_begin():
            return True
        is_shared = self._gate.readers > 0
        return is_shared and self._gate.wait_until_empty(DRAIN_S) and may_begin()

    def _attempt(
        self, batch: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer] | None:
        if self.is_lost:
            raise DeviceLost("the device failed earlier")
        try:
            with self._gate.reading():
                return forward(batch)
        except Exception as error:
            if is_sticky(error):
                raise self.translate(error) from error
            if not is_out_of_memory(error):
                raise
        finally:
            self._last_work = self._clock()
        # The exception is gone by now, and with it the frames that held tensors.
        return None

    def _count_refused(self, number: int) -> None:
        with self._counting:
            self._refused += number

    def _trim_if_quiet(self, reason: Reason) -> TrimRecord | None:
        """Trims if no batch is inside the gate; else returns None."""
        with self._gate.exclusive() as entered:
            return self._trim(reason) if entered else None

    def _trim(self, reason: Reason) -> TrimRecord | None:
        if self.is_lost or self._allocator.capturing():
            return None
        now, before = self._clock(), self._allocator.stats()
        headroom = self._budget.headroom(before)
        host = reason not in (Reason.HARD, Reason.ROOM)
        seconds = self._release(host=host)
        left = self._allocator.stats()
        returned = before.reserved - left.reserved
        if host:
            returned += before.host_releasable - left.host_releasable
        self._policy.trimmed(now, reason, before, left, headroom)
        headroom = self._budget.headroom(left, max_age_s=0)
        self._ooms.after_trim(
            has_headroom=headroom.free >= self._policy.thresholds.low_water(headroom)
        )
        return self._record(TrimRecord(reason, seconds, max(0, returned)))

    def _release(self, *, host: bool) -> float:
        """Trims the device and, if `host`, the caches of host memory; returns the seconds."""
        begun = time.perf_counter()
        for give_back in self._before_trim:
            give_back(host=host)
        self._allocator.trim()
        if host:
            self._allocator.trim_host()
        return time.perf_counter() - begun

    def _record(self, trim: TrimRecord) -> TrimRecord:
        counted = self._trims.get(trim.reason, Trims()).add(trim.seconds, trim.returned_bytes)
        # Replaced rather than changed: other threads read it.
        self._trims = {**self._trims, trim.reason: counted}
        self._report(
            "trim",
            device=self._allocator.name,
            reason=trim.reason.value,
            ms=round(trim.seconds * 1e3, 3),
            returned_bytes=trim.returned_bytes,
        )
        self._snapshot = self._take_snapshot()
        return trim

    def _take_snapshot(self) -> MemorySnapshot:
        now, stats = self._clock(), self._allocator.stats()
        return MemorySnapshot(
            device=self._allocator.name,
            taken=now,
            stats=stats,
            headroom=self._budget.headroom(stats),
            limit=self._budget.limit,
            trims=self._trims,
            oom_count=self._ooms.count,
            refused=self._refused,
            resident=resident_bytes(),
            healthy=not self._ooms.is_unhealthy,
        )


def manager_of(
    device: torch.device,
    gate: Gate,
    *,
    idle_s: float | None = None,
    limit_mib: int | None = None,
    report: Report = lambda *_, **__: None,
) -> Manager:
    """A manager of `device`.

    Args:
        gate: One for all managers of a process: a trim reaches every cache of it.
        idle_s: As the setting `memory_idle_s`, like `limit_mib`.
        report: As for `Manager`.
    """
    is_cuda = device.type == "cuda"
    limit = None if limit_mib is None else limit_mib * MIB
    total = torch.cuda.get_device_properties(device).total_memory if is_cuda else 0
    allocator: Allocator = host.Heap()
    thresholds = CPU_THRESHOLDS
    if is_cuda:
        fraction = 1.0 if limit is None else min(1.0, limit / total)
        allocator = CudaAllocator(device, fraction, host.Heap())
        thresholds = CUDA_THRESHOLDS
    return Manager(
        allocator,
        thresholds if idle_s is None else replace(thresholds, idle_s=idle_s),
        gate,
        limit=limit,
        reserve=CUDA_RESERVE if is_cuda else 0,
        # Without a limit a CPU refuses nothing: the system may have swap, and overcommits.
        bounded=is_cuda or limit is not None,
        report=report,
    )
