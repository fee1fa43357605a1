"""The scheduler of one device: the lane of work, small work on the event loop, and refusals.

Work that is predicted to be long waits in a lane of its own, whose engine runs behind that of the
other lane, so that short work passes it. Small work that meets an idle engine of a CPU is not
queued at all (see compute/cpu.py).
"""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Any

from farpoint_server import request_context
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cost import CostModel
from farpoint_server.compute.engine import PAUSE, Engine
from farpoint_server.compute.lane import HUNG, BatchMetrics, Lane, Watchdog
from farpoint_server.compute.queue import Job, JobQueue
from farpoint_server.compute.work import Answer, Outcome, Work
from farpoint_server.errors import DeadlinePassedError, DeadlineTooCloseError, EngineHungError

# A deadline is refused at once where the work is predicted to take so many times as long.
CLEARLY = 2
# Small work that runs at once although more arrives.
MOST_JOINED = 16


class DeviceScheduler:
    """An engine with a queue for short work, and its background engine with a queue for long work.

    Args:
        engine: Without a background engine all work waits in one queue.
        batch_points: Points after which a batch takes no further request; a request that is
            larger by itself makes a batch of its own.
        watchdog: Watches every batch that runs; one without limit if None.
        long_ns: Predicted nanoseconds above which work is long.
        batch_ns: Predicted nanoseconds after which a batch takes no further request; None is
            without limit, as for a GPU, which runs the clouds of a batch in parallel.
        metrics: Observe every batch.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        engine: Engine,
        batch_points: int,
        watchdog: Watchdog | None = None,
        *,
        long_ns: int = 0,
        batch_ns: int | None = None,
        metrics: BatchMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self._watchdog = watchdog = watchdog or Watchdog(None)
        self._clock = clock
        self.costs = costs = CostModel(engine.device_type)
        self._long_ns = long_ns
        self._metrics = metrics or BatchMetrics()
        self._lanes = [
            Lane(
                engine=each,
                queue=JobQueue(batch_points, batch_ns),
                watchdog=watchdog,
                index=index,
                costs=costs,
                metrics=self._metrics,
                clock=clock,
            )
            for index, each in enumerate((engine, engine.background))
            if each is not None
        ]
        self._short, self._long = self._lanes[0], self._lanes[-1]
        self._paused: dict[str, float] = {}
        """Callers whose work is not run inline, until when."""
        self._arrived: dict[Any, list[tuple[Work[Any], asyncio.Future[Any]]]] = {}
        """Small work of this turn of the event loop, and its outcome, by what it is joined by."""

    @property
    def waiting_requests(self) -> int:
        """Number of waiting requests."""
        return sum(lane.queue.count for lane in self._lanes)

    @property
    def waiting_points(self) -> int:
        """Points of the waiting requests."""
        return sum(lane.queue.points for lane in self._lanes)

    def start(self) -> None:
        """Starts to serve the queues."""
        for lane in self._lanes:
            lane.start()

    async def stop(self) -> None:
        """Ends the workers; waiting requests are never answered."""
        for lane in self._lanes:
            await lane.stop()

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """Runs small work at once if the engine is idle; queues other work.

        When the caller is cancelled or its time is over, its work leaves the queue, or the kernel
        that is at it.

        Args:
            work: One request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            DeadlinePassedError: the work was not done in time, or is predicted not to be.
            OverloadedError: there is not enough memory now.
            EngineHungError: the engine does not answer.
            DeviceFailedError: the device no longer works.
        """
        if timeout_s is None or timeout_s > 0:
            outcome = await self._join(work) if work.is_joined else self.run_inline(work)
            if outcome is not None:
                return outcome
        return await self._enqueue(work, timeout_s)

    def run_inline(self, work: Work[Answer]) -> Outcome[Answer] | None:
        """Runs small work at once if the engine is idle; None for other work.

        Raises:
            EngineHungError: the engine does not answer.
        """
        most_ns = self.engine.inline_ns
        if most_ns < 0 or self._short.queue.count or work.cost_ns("cpu") > most_ns:
            return None
        if self._watchdog.late[0]:
            raise EngineHungError(HUNG)
        begun = self._clock()
        if self._paused and self._paused.get(request_context.caller.get(), begun) > begun:
            return None
        answer = self.engine.inline(work)
        seconds = self._clock() - begun
        if answer is None:
            if seconds * 1e9 > most_ns:
                self.costs.observe_inline(work, seconds * 1e9)
                self._pause(begun, PAUSE * seconds)
            return None
        self.costs.observe_inline(work, seconds * 1e9)
        self._metrics.begin(1, work.point_count)
        self._metrics.seconds(seconds)
        return Outcome(answer, 0.0, seconds * 1e3)

    async def _join(self, work: Work[Answer]) -> Outcome[Answer] | None:
        """Runs small work at once with that which arrives meanwhile; None for other work."""
        if self._short.queue.count or work.cost_ns("cpu") > self.engine.inline_batch_ns:
            return None
        key, loop = work.batch_key or work, asyncio.get_running_loop()
        joined = self._arrived.setdefault(key, [])
        if not joined:
            loop.call_soon(self._run_joined, key, 0)
        outcome: asyncio.Future[Outcome[Answer] | None] = loop.create_future()
        joined.append((work, outcome))
        return await outcome

    def _run_joined(self, key: Any, count: int) -> None:
        """Runs the small work of one key, once a turn of the event loop has added none to it."""
        arrived = len(self._arrived[key])
        if count < arrived < MOST_JOINED:
            asyncio.get_running_loop().call_soon(self._run_joined, key, arrived)
            return
        joined = [each for each in self._arrived.pop(key) if not each[1].done()]
        if not joined:
            return
        batch, begun, answers = Batch([work for work, _ in joined]), self._clock(), None
        try:
            answers = self.engine.inline_batch(batch)
        finally:  # without an answer it is queued
            seconds = self._clock() - begun
            for place, (_, outcome) in enumerate(joined):
                outcome.set_result(answers and Outcome(answers[place], 0.0, seconds * 1e3))
        if answers is not None:
            self._metrics.begin(len(joined), batch.point_count)
            self._metrics.seconds(seconds)

    def _pause(self, now: float, pause_s: float) -> None:
        """Queues small work of the current caller, whose costs are hard to predict, for a while."""
        self._paused = {caller: end for caller, end in self._paused.items() if end > now}
        self._paused[request_context.caller.get()] = now + pause_s

    @property
    def wait_ns(self) -> int:
        """Predicted nanoseconds of all waiting and running work."""
        return sum(lane.wait_ns for lane in self._lanes)

    def completion_ns(self, work: Work[Any]) -> float:
        """Predicted nanoseconds until new work is done; infinite while the engine hangs."""
        is_long = self.costs.predict_ns(work) > self._long_ns
        lane = self._long if is_long else self._short
        if lane.is_hung:
            return inf
        wait_ns = self.wait_ns if is_long and lane is not self._short else lane.wait_ns
        return wait_ns + self.costs.predict_alone_ns(work)

    async def _enqueue(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        cost_ns, loop = self.costs.predict_ns(work), asyncio.get_running_loop()
        lane = self._long if cost_ns > self._long_ns else self._short
        if lane.is_hung:
            raise EngineHungError(HUNG)
        job = Job(
            work,
            answer=loop.create_future(),
            caller=request_context.caller.get(),
            cost_ns=cost_ns,
            accepted=self._clock(),
        )
        timer = None
        if timeout_s is not None:
            predicted_s = lane.queue.ahead_ns(job) / 1e9 / lane.engine.at_once
            if predicted_s > CLEARLY * timeout_s:
                self._refuse_if_known(work, predicted_s, timeout_s)
            timer = loop.call_later(timeout_s, _expire, job)
        lane.queue.add(job)
        try:
            return await job.answer
        except BaseException:
            # It may still wait, or run in a batch with others.
            lane.queue.discard(job)
            job.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _refuse_if_known(self, work: Work[Any], predicted_s: float, timeout_s: float) -> None:
        """Refuses work that is predicted to miss its deadline after taking the time of others."""
        if timeout_s > 0 and self.costs.is_known(work):
            raise DeadlineTooCloseError(
                f"the work would end in about {predicted_s:.3g} s, and the deadline is in "
                f"{timeout_s:.3g} s"
            )


def _expire(job: Job) -> None:
    job.fail(DeadlinePassedError("the deadline passed before the work ended"))
