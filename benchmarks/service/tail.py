"""Latency benchmark of small calls next to three callers with large clouds.

    python -m benchmarks.service.tail [--seconds 10]

One caller samples 64 of 1 024 points a hundred times a second, first alone, then while three others
call in a closed loop with the clouds of CASES. The callers run on the server's cores.
"""

import argparse
import asyncio
import multiprocessing
import os
import time

import grpc
import numpy as np

from benchmarks.common.point_sets import POINT_SETS
from benchmarks.common.report import shown
from benchmarks.service.load import SAMPLE, UNLIMITED, percentiles_ms, request
from benchmarks.service.processes import serving_farpoint

# Points, samples and kind of each large cloud.
CASES = ((4_000_000, 1_000_000, "equal"), (1_000_000, 65_536, "cube"))
PAUSE_S, WARM_UP_S = 0.01, 3.0
HEAVY_CALLERS = 3
SPAWN = multiprocessing.get_context("spawn")


async def call_for(address: str, data: bytes, seconds: float, pause_s: float) -> list[float]:
    """Seconds of each call of one caller, which has a connection and pauses after each call."""
    latencies = []
    options = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        call, end = channel.unary_unary(SAMPLE), time.perf_counter() + seconds
        while (sent := time.perf_counter()) < end:
            await call(data)
            latencies.append(time.perf_counter() - sent)
            await asyncio.sleep(pause_s)
    return latencies


def heavy(address: str, case: tuple[int, int, str], seconds: float) -> None:
    points, samples, kind = case
    data = request(POINT_SETS[kind](points), samples)

    async def call_all() -> None:
        await asyncio.gather(*(call_for(address, data, seconds, 0) for _ in range(HEAVY_CALLERS)))

    asyncio.run(call_all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case")
    seconds = parser.parse_args().seconds
    small = request(np.random.default_rng(0).random((1024, 3), np.float32), 64)
    with serving_farpoint() as server:
        for case in (None, *CASES):
            if case is not None:
                arguments = (server.address, case, seconds + 2 * WARM_UP_S)
                others = SPAWN.Process(target=heavy, args=arguments)
                others.start()
                time.sleep(WARM_UP_S)
            found = asyncio.run(call_for(server.address, small, seconds, PAUSE_S))
            row = {"next_to": case, **percentiles_ms(found), "calls": len(found)}
            shown({**row, "load_average": os.getloadavg()[0]})
            if case is not None:
                others.join()


if __name__ == "__main__":
    main()
