"""The two lines of a lane: which jobs share a batch, at what bounds, and what lies ahead of one."""

from tests.support.scheduling import MS, job

from farpoint_server.scheduling.queue import Job, JobQueue


def add(queue: JobQueue, *jobs: Job) -> list[Job]:
    """Has jobs wait, each a second older than the next."""
    for second, one in enumerate(jobs):
        one.accepted = float(second)
        queue.add(one)
    return list(jobs)


def exactly(cost_ns: int) -> Job:
    """A job of so many nanoseconds."""
    made = job("", 0)
    made.cost_ns = cost_ns
    return made


def alone(caller: str, cost_ms: float, points: int = 1) -> Job:
    """A job of a kind that shares no launch."""
    made = job(caller, cost_ms, points)
    made.work.batch_key = None
    return made


async def test_a_batch_is_as_large_as_its_bound_and_no_larger():
    queue = JobQueue(100)
    a, b, c = add(queue, job("", 1, 50), job("", 1, 50), job("", 1, 1))
    assert queue.take_batch() == [a, b]
    assert (queue.count, queue.points) == (1, 1)
    assert queue.take_batch() == [c]
    assert (queue.count, queue.points, queue.take_batch()) == (0, 0, [])


async def test_a_batch_lasts_as_long_as_its_bound_and_no_longer():
    queue = JobQueue(100, 10 * MS)
    a, b, c = add(queue, job("", 4), job("", 6), exactly(1))
    assert [queue.take_batch(), queue.take_batch()] == [[a, b], [c]]
    a, b, c = add(queue, job("", 4), job("", 5), exactly(MS + 1))
    assert [queue.take_batch(), queue.take_batch()] == [[a, b], [c]]


async def test_more_than_half_of_a_batch_runs_alone():
    queue = JobQueue(100)
    half, more, small = add(queue, job("", 1, 50), job("", 1, 51), job("", 1, 1))
    assert [queue.take_batch(), queue.take_batch()] == [[half, small], [more]]


async def test_the_older_line_begins_and_the_shared_one_if_both_are_as_old():
    queue = JobQueue(100)
    large, small = add(queue, job("", 1, 99), job("", 1, 1))
    assert [queue.take_batch(), queue.take_batch()] == [[large], [small]]
    queue = JobQueue(100)
    large, small = add(queue, job("", 1, 99), job("", 1, 1))
    large.accepted = small.accepted
    assert [queue.take_batch(), queue.take_batch()] == [[small], [large]]


async def test_what_nobody_waits_for_takes_no_room_in_a_batch():
    queue = JobQueue(100)
    left, a, b = add(queue, job("", 1, 40), job("", 1, 50), job("", 1, 50))
    left.answer.cancel()
    assert queue.take_batch() == [a, b]
    assert (queue.count, queue.points) == (0, 0)


async def test_a_full_batch_is_there():
    queue = JobQueue(100)
    assert not queue.has_full_batch
    add(queue, job("", 1, 50), job("", 1, 49))
    assert not queue.has_full_batch
    add(queue, job("", 1, 1))
    assert queue.has_full_batch
    queue = JobQueue(100)
    add(queue, job("", 1, 51))
    assert queue.has_full_batch


async def test_all_are_taken_from_both_lines():
    queue = JobQueue(100)
    jobs = add(queue, job("a", 1, 3), job("b", 1, 4), alone("a", 1, 5))
    assert queue.take_all() == jobs
    assert (queue.count, queue.points, queue.take_all()) == (0, 0, [])


async def test_a_job_is_discarded_once():
    queue = JobQueue(100)
    left, _ = add(queue, job("a", 1, 3), job("a", 1, 4))
    for _ in range(2):
        queue.discard(left)
        assert (queue.count, queue.points) == (1, 4)


async def test_ahead_of_a_job_is_its_callers_and_as_much_of_each_other():
    queue = JobQueue(100)
    assert queue.ahead_ns(job("a", 7)) == 7 * MS
    add(queue, job("b", 100), job("c", 2), alone("d", 1000))
    # Of b as much as its own, of c all: not more than both have, nor than twice its own.
    assert queue.ahead_ns(job("a", 7)) == 21 * MS
    assert queue.ahead_ns(job("a", 90)) == 192 * MS
    add(queue, job("a", 3))
    assert queue.ahead_ns(job("a", 7)) == 30 * MS
    assert queue.ahead_ns(job("b", 7)) == 112 * MS
    assert queue.ahead_ns(alone("d", 5)) == 1005 * MS
    queue = JobQueue(100)
    add(queue, exactly(1), job("b", 100))
    assert queue.ahead_ns(job("", 7)) == 14 * MS + 2
