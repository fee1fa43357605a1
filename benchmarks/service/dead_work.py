"""Benchmark of expired deadlines and cancelled calls: how soon the server is free again."""

import asyncio
import time
from collections import Counter

import grpc
import numpy as np

from benchmarks.service.load import SAMPLE, UNLIMITED, request


def _normal(points: int, samples: int) -> bytes:
    cloud = np.random.default_rng(points).normal(size=(points, 3)).astype("<f4")
    return request(cloud, samples)


async def expire(address: str, data: bytes, calls: int, timeout: float) -> dict[str, object]:
    """Calls that mostly miss their deadline; how long a small call then takes, from the last one.

    The small call is answered once the engine is free, so its time bounds the dead work.
    """
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        small = _normal(10, 1)
        await call(small)

        async def one() -> str:
            try:
                await call(data, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

        codes = Counter(await asyncio.gather(*(one() for _ in range(calls))))
        begun = time.perf_counter()
        await call(small)
        return {"codes": dict(codes), "idle_after_s": time.perf_counter() - begun}


async def cancel(address: str, data: bytes, after_s: float) -> float:
    """Milliseconds from the cancel of a call that is being computed to the answer of the next."""
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        small = _normal(10, 1)
        await call(small)
        running = call(data)
        await asyncio.sleep(after_s)
        assert not running.done()
        begun = time.perf_counter()
        running.cancel()
        await call(small)
        return 1e3 * (time.perf_counter() - begun)


def dead_work(address: str) -> dict[str, object]:
    """Both, of calls that take the kernels some tenths of a second."""
    large = _normal(300_000, 300_000)
    huge = _normal(1_000_000, 1_000_000)
    expired = asyncio.run(expire(address, large, 96, 1.5))
    cancelled = [asyncio.run(cancel(address, huge, 0.25)) for _ in range(9)]
    return {**expired, "free_after_cancel_ms": cancelled}
