"""The simulated server: its clock, its cores, and queues whose lengths are known by formula."""

import asyncio
import time

import numpy as np
import pytest
from benchmarks.sizing.fleet import _places
from benchmarks.sizing.model import Cost, Node, closed_loop, open_loop, run
from benchmarks.sizing.virtual import Cores, VirtualLoop, simulate

from farpoint.cli.bench.load import Arrivals

SMALL = Cost(1024, 256, kernel_s=0.0, wire_s=0.001, caller_s=0.0, away_s=0.0)
# Predicted to take more than 30 ms, so it waits in the lane of long work.
LONG = Cost(1_000_000, 100_000, kernel_s=0.4, wire_s=0.001, caller_s=0.0, away_s=0.0)
# Not small enough for the event loop.
MIDDLE = Cost(100_000, 10_000, kernel_s=0.004, wire_s=0.001, caller_s=0.0, away_s=0.0)


def test_an_hour_passes_at_once():
    loop, begun = VirtualLoop(), time.monotonic()

    async def main() -> float:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return loop.time()

    assert simulate(loop, main()) == pytest.approx(3600)
    assert time.monotonic() - begun < 5


def test_what_never_comes_is_an_error():
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="never comes"):
        simulate(VirtualLoop(), main())


@pytest.mark.parametrize(
    ("cores", "jobs", "ends"),
    [
        # Each is (seconds, threads, weight).
        (1, [(1, 1, 1), (1, 1, 1)], [2, 2]),
        (2, [(1, 1, 1), (1, 1, 1)], [1, 1]),
        (2, [(4, 2, 1)], [2]),
        (2, [(1, 1, 1), (3, 2, 1)], [1.5, 2]),
        (1, [(1, 1, 1), (1, 1, 0.25)], [1.25, 2]),
        (2, [(1, 1, 1), (1, 1, 0.1)], [1, 1]),
    ],
)
def test_cores_are_shared_by_weight(cores, jobs, ends):
    loop = VirtualLoop()

    async def main() -> list[float]:
        machine, ended = Cores(cores), []

        async def one(job) -> float:
            await machine.run(*job)
            return loop.time()

        ended = await asyncio.gather(*(one(job) for job in jobs))
        assert machine.used_s == pytest.approx(sum(seconds for seconds, *_ in jobs))
        return list(ended)

    assert simulate(loop, main()) == pytest.approx(ends)


def latencies(costs, rate, seconds, shares) -> np.ndarray:
    arrivals = Arrivals.poisson(rate, seconds, shares, seed=4)

    async def main():
        places = np.zeros(len(arrivals.kinds), np.int64)
        return await open_loop([Node(1, costs)], arrivals, places)

    return np.array(run(main).latency_ms)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_queue_of_one_kind_is_as_long_as_theory_has_it(load):
    """Lindley's recursion, same arrivals: each begins when it is due and the last one is done."""
    rate, seconds = load / SMALL.wire_s, 5
    ends, waited = 0.0, []
    for due in Arrivals.poisson(rate, seconds, [1], seed=4).due_s.tolist():
        ends = max(ends, due) + SMALL.wire_s
        waited.append((ends - due) * 1e3)
    found = latencies([SMALL], rate, seconds, [1]).mean()
    # A call's second part lets first parts of others pass, so it takes longer than in one piece.
    assert np.mean(waited) <= found <= 1.35 * np.mean(waited)


def test_callers_without_pauses_fill_the_server():
    async def main() -> float:
        return await closed_loop(Node(1, [MIDDLE]), 8, [0] * 400)

    full = 1 / (MIDDLE.kernel_s + MIDDLE.wire_s)
    assert run(main) == pytest.approx(full, rel=0.03)


def test_long_work_is_passed_by_short_work_and_takes_batches_of_its_own():
    """The scheduler is the server's: one long request in ten does not hold up the nine."""
    found = latencies([SMALL, LONG], 10, 30, [9, 1])
    assert np.median(found) < 3
    assert found.max() > LONG.kernel_s * 1e3


def test_a_process_of_callers_is_a_queue_of_its_own():
    slow = Cost(1024, 256, kernel_s=0.0, wire_s=0.0001, caller_s=0.002, away_s=0.0)

    async def main() -> float:
        return await closed_loop(Node(1, [slow]), 8, [0] * 400)

    assert run(main) == pytest.approx(1 / slow.caller_s, rel=0.03)


def test_policies_send_calls_where_they_say():
    is_slow = np.arange(100) % 20 == 0
    assert np.bincount(_places("round_robin", 1000, is_slow)).tolist() == [10] * 100
    to_slow = is_slow[_places("one slow", 100_000, is_slow)].mean()
    assert to_slow == pytest.approx(0.05, abs=0.005)
    to_slow = is_slow[_places("one slow, weighted", 100_000, is_slow)].mean()
    assert to_slow == pytest.approx(2.5 / 97.5, abs=0.003)
