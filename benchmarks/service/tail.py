"""Latency benchmark of one caller's small calls next to those of another.

    python -m benchmarks.service.tail [--seconds 10]

One token samples 64 of 1 024 points a hundred times a second, first alone, then while another one
has the calls of CASES open all the time. The callers run on the server's cores.
"""

import argparse
import asyncio
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import numpy as np

from benchmarks.common.point_sets import POINT_SETS
from benchmarks.common.report import shown
from benchmarks.service.load import SAMPLE, UNLIMITED, percentiles_ms, request
from benchmarks.service.processes import serving_farpoint

PAUSE_S, WARM_UP_S, REFUSED_S = 0.01, 3.0, 0.02
SPAWN = multiprocessing.get_context("spawn")
ONE, OTHER = "one-token-of-this-benchmark-0000000", "other-token-of-this-benchmark-00000"


@dataclass(frozen=True)
class Case:
    """Calls of the other token: each of one cloud, so many at a time, on so many connections."""

    points: int
    samples: int
    kind: str
    calls: int
    connections: int


CASES = (
    Case(4_000_000, 1_000_000, "equal", calls=3, connections=3),
    Case(1_000_000, 65_536, "cube", calls=3, connections=3),
    Case(1, 1, "cube", calls=1000, connections=10),
    Case(16_666, 1_250, "cube", calls=1000, connections=10),
)


def connect(address: str) -> grpc.aio.Channel:
    options = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
    return grpc.aio.insecure_channel(address, options=options)


async def call_for(
    channel: grpc.aio.Channel, token: str, data: bytes, seconds: float, pause_s: float
) -> list[float]:
    """Seconds of each call that is answered, one after the other with a pause after each."""
    latencies, call = [], channel.unary_unary(SAMPLE)
    metadata, end = (("authorization", f"Bearer {token}"),), time.perf_counter() + seconds
    while (sent := time.perf_counter()) < end:
        try:
            await call(data, metadata=metadata)
            latencies.append(time.perf_counter() - sent)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or token == ONE:
                raise
            await asyncio.sleep(REFUSED_S)
        await asyncio.sleep(pause_s)
    return latencies


async def small(address: str, seconds: float) -> list[float]:
    data = request(np.random.default_rng(0).random((1024, 3), np.float32), 64)
    async with connect(address) as channel:
        return await call_for(channel, ONE, data, seconds, PAUSE_S)


def others(address: str, case: Case, seconds: float) -> None:
    data = request(POINT_SETS[case.kind](case.points), case.samples)

    async def call_all() -> None:
        channels = [connect(address) for _ in range(case.connections)]
        each = [channels[i % case.connections] for i in range(case.calls)]
        await asyncio.gather(*(call_for(c, OTHER, data, seconds, 0) for c in each))

    asyncio.run(call_all())


def measure(address: str, cases: Sequence[Case | None], seconds: float) -> None:
    for case in cases:
        if case is not None:
            beside = SPAWN.Process(target=others, args=(address, case, seconds + 2 * WARM_UP_S))
            beside.start()
            time.sleep(WARM_UP_S)
        found = asyncio.run(small(address, seconds))
        row = {"next_to": case and asdict(case), **percentiles_ms(found), "calls": len(found)}
        shown({**row, "load_average": os.getloadavg()[0]})
        if case is not None:
            beside.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case")
    seconds = parser.parse_args().seconds
    with TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(f"one sample {ONE}\nother sample {OTHER}\n", encoding="utf-8")
        with serving_farpoint("--tokens-file", str(tokens)) as server:
            measure(server.address, (None, *CASES), seconds)


if __name__ == "__main__":
    main()
