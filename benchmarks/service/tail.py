"""Latency benchmark of small calls next to three callers with large clouds.

    python -m benchmarks.service.tail [--seconds 10]

One caller samples 64 of 1 024 points a hundred times a second, first alone, then while three others
call in a closed loop with the clouds of CASES. The callers run on the server's cores.
"""

import argparse
import asyncio
import os
import time

import grpc
import numpy as np

from benchmarks.common.point_sets import POINT_SETS
from benchmarks.common.report import shown
from benchmarks.service.load import SAMPLE, UNLIMITED, percentiles_ms, request
from benchmarks.service.processes import serving_farpoint
from benchmarks.service.scaling import SPAWN, call_all

# Points, samples and kind of each large cloud.
CASES = ((4_000_000, 1_000_000, "equal"), (1_000_000, 65_536, "cube"))
PAUSE_S, WARM_UP_S = 0.01, 3.0
HEAVY_CALLERS = 3


async def call_for(address: str, data: bytes, seconds: float) -> list[float]:
    """Seconds of each call of one caller that pauses after each."""
    latencies = []
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call, end = channel.unary_unary(SAMPLE), time.perf_counter() + seconds
        while (sent := time.perf_counter()) < end:
            await call(data)
            latencies.append(time.perf_counter() - sent)
            await asyncio.sleep(PAUSE_S)
    return latencies


def heavy(address: str, case: tuple[int, int, str], seconds: float) -> None:
    points, samples, kind = case
    data = request(POINT_SETS[kind](points), samples)
    asyncio.run(call_all(address, data, HEAVY_CALLERS, seconds, lambda: None))


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
            found = asyncio.run(call_for(server.address, small, seconds))
            row = {"next_to": case, **percentiles_ms(found), "calls": len(found)}
            shown({**row, "load_average": os.getloadavg()[0]})
            if case is not None:
                others.join()


if __name__ == "__main__":
    main()
