"""Dynamic batching: which lane work waits in, for whom, and what is refused instead.

Work that is predicted to be long waits in a lane of its own, whose engines run behind those of
the other lane, so that short work passes it. Small work that meets an idle engine of a CPU is not
queued at all (see engine/thread.py).
"""

import asyncio
import time
from collections.abc import Sequence

from farpoint_server import request_context
from farpoint_server.engine.types import Answer, Outcome, Work
from farpoint_server.errors import DeadlinePassedError, DeadlineTooCloseError, EngineHungError
from farpoint_server.scheduling.cost import CostModel
from farpoint_server.scheduling.job import Job
from farpoint_server.scheduling.lane import BatchRunner, Lane
from farpoint_server.scheduling.queue import JobQueue
from farpoint_server.scheduling.watchdog import HUNG, Watchdog

# A deadline is refused at once where the work is predicted to take so many times as long.
CLEARLY = 2


class Batcher:
    """Engines behind one queue for short work, and as many behind another one for long work.

    Args:
        engines: Each runs one batch at a time, or as many as its depth.
        batch_points: Points after which a batch takes no further request; a request that is
            larger by itself makes a batch of its own.
        watchdog: Told of every batch that runs; one without limit if None.
        background: Engines for long work, in the order of `engines`; without them all work waits
            in one queue.
        long_ns: Predicted nanoseconds above which work is long.
        batch_ns: Predicted nanoseconds after which a batch takes no further request; None is
            without limit, as for a GPU, which runs the clouds of a batch beside one another.
    """

    def __init__(
        self,
        engines: Sequence[BatchRunner],
        batch_points: int,
        watchdog: Watchdog | None = None,
        *,
        background: Sequence[BatchRunner] = (),
        long_ns: int = 0,
        batch_ns: int | None = None,
    ) -> None:
        lanes = [engines, background] if background else [engines]
        watchdog = watchdog or Watchdog(None, len(engines), lanes=len(lanes))
        self._costs = CostModel()
        self._long_ns = long_ns
        self._lanes = [
            Lane(
                lane,
                JobQueue(batch_points, batch_ns),
                watchdog,
                position * len(engines),
                self._costs,
            )
            for position, lane in enumerate(lanes)
        ]
        self._short, self._long = self._lanes[0], self._lanes[-1]

    @property
    def waiting_requests(self) -> int:
        """Requests that no engine has begun."""
        return sum(len(lane.queue) for lane in self._lanes)

    @property
    def waiting_points(self) -> int:
        """Points of the requests that no engine has begun."""
        return sum(lane.queue.points for lane in self._lanes)

    def start(self) -> None:
        """Begins to serve the queues."""
        for lane in self._lanes:
            lane.start()

    async def stop(self) -> None:
        """Ends the workers; what still waits is never answered."""
        for lane in self._lanes:
            await lane.stop()

    async def died(self) -> None:
        """Returns once a worker ended by a bug, after which a queue is not served as it was."""
        waiting = [asyncio.ensure_future(lane.died.wait()) for lane in self._lanes]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def run(self, work: Work[Answer], timeout_s: float | None) -> Outcome[Answer]:
        """Does work that is small at once, if an engine is idle; queues other work.

        When the caller is cancelled or its time is over, its work leaves the queue, or the kernel
        that is at it.

        Args:
            work: One request.
            timeout_s: Seconds that the caller will still wait; None for ever.

        Raises:
            DeadlinePassedError: the work was not done in time, or is predicted not to be.
            OverloadedError: there is not enough memory now.
            EngineHungError: no engine answers.
            DeviceFailedError: the device works no more.
        """
        if not len(self._short.queue) and (timeout_s is None or timeout_s > 0):
            if self._short.is_hung:
                raise EngineHungError(HUNG)
            begun = time.monotonic()
            for engine in self._short.engines:
                answer = engine.run_inline_if_idle(work)
                if answer is not None:
                    return Outcome(answer, 0.0, (time.monotonic() - begun) * 1e3)
        cost_ns = self._costs.predict_ns(work)
        lane = self._long if cost_ns > self._long_ns else self._short
        if lane.is_hung:
            raise EngineHungError(HUNG)
        return await self._enqueue(lane, work, cost_ns, timeout_s)

    async def _enqueue(
        self, lane: Lane, work: Work[Answer], cost_ns: int, timeout_s: float | None
    ) -> Outcome[Answer]:
        loop = asyncio.get_running_loop()
        job = Job(work, loop.create_future(), request_context.caller.get(), cost_ns)
        timer = None
        if timeout_s is not None:
            self._check_deadline(lane, job, timeout_s)
            timer = loop.call_later(timeout_s, _expire, job)
        lane.add(job)
        try:
            return await job.answer
        except BaseException:
            # It may still wait, or run in a batch with others.
            lane.queue.discard(job)
            job.give_up()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _check_deadline(self, lane: Lane, job: Job, timeout_s: float) -> None:
        """Refuses what would be given up in the end, after it took the time of others."""
        predicted_s = lane.queue.ahead_ns(job) / 1e9 / len(lane.engines)
        if predicted_s > CLEARLY * timeout_s and timeout_s > 0 and self._costs.is_known(job.work):
            raise DeadlineTooCloseError(
                f"the work would end in about {predicted_s:.3g} s, and the deadline is in "
                f"{timeout_s:.3g} s"
            )


def _expire(job: Job) -> None:
    job.fail(DeadlinePassedError("the deadline passed before the work ended"))
