"""Runs the batches of a device and trims its allocator between them, on the engine thread."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from farpoint_server.memory import environment, host
from farpoint_server.memory.cuda import CudaAllocator
from farpoint_server.memory.gate import Gate
from farpoint_server.memory.oom import (
    SMALL_BYTES,
    Answer,
    Batch,
    DeviceLost,
    OutOfMemory,
    TooLarge,
    is_out_of_memory,
    is_sticky,
    run_in_halves,
)
from farpoint_server.memory.policy import CPU_THRESHOLDS, CUDA_THRESHOLDS, Options, Thresholds
from farpoint_server.memory.snapshot import Allocator, Reason
from farpoint_server.memory.trimmer import DRAIN_S, Report, Trimmer

Result = TypeVar("Result")


class Manager(Trimmer):
    """Runs batches, and trims between them.

    `check` is for any thread, `run` for the two threads of the device's engine, that of long work
    and that of the rest: a trim still has the gate to itself. `run_inline` is for the event loop,
    while the latter has nothing to do.
    """

    def hold(self) -> Callable[[], None]:
        """Keeps the calling batch in flight until the returned function is called."""
        return self._gate.hold_shared()

    def has_headroom(self, predicted: int) -> bool:
        """Whether a whole batch fits next to those in flight, without a flush of the cache."""
        return not self.bounded or self._budget.fits_uncut(predicted)

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
            batch: Given to `forward` as it is, if neither a bound nor a lack of memory cuts it.
            forward: Answers a batch; the answers lie in host memory when it returns.
            explain: The error that callers get for a finding; by default the finding itself.

        Raises:
            DeviceLost: now or earlier, the device failed for good; or what that is explained as.
        """
        is_cut = self.bounded and len(batch) > 1
        answers: list[Any] = []
        try:
            for part in self._parts(batch) if is_cut else [batch]:
                answers += self._run_part(part, forward)
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
            self._snapshot = self._look()
        return answers

    def run_inline(self, forward: Callable[[], Result], predicted: int) -> Result | None:
        """Runs work too small for a budget while the engine's thread is idle.

        Args:
            forward: Answers it. Its errors say nothing of the device yet.
            predicted: Bytes that it takes on the device.

        Returns:
            None, with nothing done, if this is no moment for it or it is not so small.
        """
        if self.is_lost or predicted >= SMALL_BYTES or not self._gate.enter():
            return None
        try:
            return forward()
        finally:
            self._gate.leave()
            self._last_work = self._clock()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch, cut if its predicted bytes exceed a share of the available memory."""
        most = self._budget.batch_bytes()
        begin = size = 0
        for end in range(len(batch)):
            more = batch[end : end + 1].predicted_bytes
            if end > begin and size + more > most:
                yield batch[begin:end]
                begin, size = end, 0
            size += more
        yield batch if begin == 0 else batch[begin:]

    def _run_part(
        self, part: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer | OutOfMemory]:
        """The answers of a batch, in halves if it does not fit or memory runs out."""
        if self.bounded and not self._may_begin(part):
            refusal = "others hold the memory that the request needs"
            return run_in_halves(part, lambda half: self._run_part(half, forward), refusal)
        answers = self._attempt(part, forward)
        if answers is not None:
            return [*answers]
        recovered = self._run_again(part, forward)
        self._ooms.add(self._clock())
        self._report("out_of_memory", device=self._allocator.name, count=self._ooms.count)
        self._snapshot = self._look()
        return recovered

    def _run_again(
        self, part: Batch, forward: Callable[[Batch], list[Answer]]
    ) -> list[Answer | OutOfMemory]:
        """The answers of a batch whose attempt ran out of memory, after a trim and in halves."""
        gc.collect()
        self.trim(Reason.OUT_OF_MEMORY)
        # Now it may fit, and then a single request need not be cut.
        answers = self._attempt(part, forward) if len(part) == 1 else None
        if answers is not None:
            return [*answers]

        def run_half(half: Batch) -> list[Answer | OutOfMemory]:
            answers = self._attempt(half, forward)
            return self._run_again(half, forward) if answers is None else [*answers]

        return run_in_halves(part, run_half, "memory ran out while the request was worked on")

    def _may_begin(self, part: Batch) -> bool:
        """Whether a batch fits now, or after the batches of other threads."""
        may_begin = partial(
            self._budget.may_begin,
            part.predicted_bytes,
            partial(self._trim_if_quiet, Reason.ROOM),
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
                raise self.failed(error) from error
            if not is_out_of_memory(error):
                raise
        finally:
            self._last_work = self._clock()
        # By now the exception is gone, and with it the frames whose variables held tensors.
        return None

    def _count_refused(self, number: int) -> None:
        with self._counting:
            self._refused += number


def manager_of(
    device: torch.device,
    options: Options,
    gate: Gate,
    allocator_settings: str = "",
    report: Report = lambda *_, **__: None,
    *,
    sharers: int = 1,
) -> Manager:
    """A manager of `device`.

    Args:
        device: A CPU or a GPU.
        options: The operator's.
        gate: One for all managers of a process: a trim reaches every cache of it.
        allocator_settings: The value of PYTORCH_ALLOC_CONF.
        report: Called with an event and its fields.
        sharers: Processes that share the device, and the limit; of a GPU its memory where there is
            no limit.
    """
    limit, is_cuda = options.limit_bytes, device.type == "cuda"
    total = torch.cuda.get_device_properties(device).total_memory if is_cuda else 0
    if sharers > 1:
        limit = (limit or total) // sharers or None
    allocator: Allocator
    if is_cuda:
        fraction = 1.0 if limit is None else min(1.0, limit / total)
        expandable = environment.is_expandable(environment.parse(allocator_settings))
        allocator = CudaAllocator(device, fraction, expandable=expandable, heap=host.Heap())
    else:
        allocator = host.Heap()
    return Manager(
        allocator,
        thresholds_of(device, options.idle_s),
        gate,
        limit=limit,
        reserve=options.reserve_bytes if is_cuda else 0,
        # Without a limit a CPU refuses nothing: the system may have swap, and overcommits.
        bounded=is_cuda or limit is not None,
        enabled=options.enabled,
        report=report,
    )


def thresholds_of(device: torch.device, idle_s: float | None) -> Thresholds:
    """The policy's constants for a device, with the operator's `idle_s` if set."""
    thresholds = CUDA_THRESHOLDS if device.type == "cuda" else CPU_THRESHOLDS
    return thresholds if idle_s is None else replace(thresholds, idle_s=idle_s)
