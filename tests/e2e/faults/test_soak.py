"""The soak itself: a short one holds, and each way in which a server may fail a caller shows."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from benchmarks.soak import callers
from benchmarks.soak.callers import Caller
from benchmarks.soak.cases import Cases
from benchmarks.soak.samples import sample_case
from benchmarks.soak.server import SoakServer
from benchmarks.soak.tally import Tally, judge_by_log
from farpoint.v1 import sampling_pb2 as pb

CASE = sample_case([np.random.default_rng(0).random((50, 3), np.float32)], 5, [0])
CASES = Cases(small=[CASE], large=[CASE], uploads=[], encode=[])
RIGHT = pb.SampleResponse(lengths=[5])
RIGHT.indices.data = CASE.indices
RIGHT.indices.shape[:] = [5]
RIGHT.distances.data = np.full(5, CASE.radii, "<f4").tobytes()
WRONG = pb.SampleResponse(lengths=[5])
WRONG.indices.data = CASE.indices[:-1] + b"\x07"
Behavior = Callable[[bytes, Any], Awaitable[bytes]]


class SteadyServer:
    """Its callers have no excuse."""

    def interrupts(self, since: float) -> bool:  # noqa: ARG002
        return False


@asynccontextmanager
async def caller_of(
    sample: Behavior, stream: Any = None, patience_s: float = 60
) -> AsyncIterator[tuple[Caller, Tally]]:
    """A caller of a server with these handlers of Sample and SampleStream."""
    server, tally = grpc.aio.server(), Tally()
    handlers = {"Sample": grpc.unary_unary_rpc_method_handler(sample)}
    if stream is not None:
        handlers["SampleStream"] = grpc.stream_stream_rpc_method_handler(stream)
    service = callers.SERVICE.strip("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=callers.OPTIONS) as channel:
        yield Caller(0, channel, CASES, tally, SteadyServer(), patience_s), tally
    await server.stop(None)


async def answer(_: bytes, __: Any) -> bytes:
    return RIGHT.SerializeToString()


async def never_answer(_: bytes, __: Any) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (RIGHT.SerializeToString(), "answered"),
        (WRONG.SerializeToString(), "wrong"),
        (b"\xff", "wrong"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "wrong"),  # without a time to retry after
        (grpc.StatusCode.UNAVAILABLE, "wrong"),
    ],
)
async def test_the_end_of_a_call_is_judged(end, outcome):
    async def behavior(_: bytes, context: Any) -> bytes:
        return end if isinstance(end, bytes) else await context.abort(end, "full")

    async with caller_of(behavior) as (caller, tally):
        await caller.call_small()
    assert dict(tally.counts) == {("small", outcome): 1}
    assert bool(tally.details) == (outcome != "answered")


@pytest.mark.parametrize(
    ("logged", "outcome"),
    [
        (["DEADLINE_EXCEEDED"], "late"),
        (["CANCELLED"], "late"),
        (["RESOURCE_EXHAUSTED"], "refused"),
        (["OK"], "lost"),
        ([], "lost"),
    ],
)
async def test_a_call_without_a_status_ended_as_the_server_logged(logged, outcome):
    async with caller_of(never_answer, patience_s=0.2) as (caller, tally):
        await caller.call_small()
    assert not tally.counts
    server = SoakServer()
    server.ends["0-1", -1] = logged
    server.ends["0-2", 3] = ["OK", "OK"]
    judge_by_log(tally, server)
    assert dict(tally.counts) == {("small", outcome): 1, ("server", "doubled"): 1}


def test_an_answer_without_what_was_asked_for_is_wrong():
    asked = sample_case([np.eye(3, dtype=np.float32)], 2, [0], extras=True)
    right = pb.SampleResponse(lengths=[2])
    right.indices.data, right.points.data = asked.indices, asked.points
    assert not asked.is_right(right)
    distances = np.array([9, asked.radii[0]], "<f4")
    right.distances.data = distances.tobytes()
    assert asked.is_right(right)
    right.distances.data = (distances * 1.01).tobytes()
    assert not asked.is_right(right)
    right.distances.data, right.points.data = distances.tobytes(), b""
    assert not asked.is_right(right)


@pytest.mark.parametrize(
    ("indices_of", "outcomes"),
    [
        (lambda n: [*range(n)], {"answered"}),
        (lambda n: [0, *range(n)], {"answered", "doubled"}),
        (lambda n: range(n - 1), {"answered", "lost"}),
        (lambda n: [0, *range(2, n)], {"answered", "wrong", "lost"}),
    ],
)
async def test_each_request_of_a_stream_is_answered_once_and_in_order(indices_of, outcomes):
    async def stream(requests: Any, _: Any) -> AsyncIterator[bytes]:
        sent = [request async for request in requests]
        for index in indices_of(len(sent)):
            yield pb.SampleStreamResponse(request_index=index, response=RIGHT).SerializeToString()

    async with caller_of(answer, stream) as (caller, tally):
        while tally.calls < 40:
            await caller.call_stream()
    assert {outcome for _, outcome in tally.counts} == outcomes


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak_loses_doubles_and_falsifies_nothing():
    command = [sys.executable, "-m", "benchmarks.soak", "--seconds", "8", "--callers", "16"]
    root = Path(__file__).resolve().parents[3]
    soak = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert "lost 0, doubled 0, wrong 0" in soak.stdout
    for fault in (
        *("1 kills and restarts", "2 killed processes", "1 frozen processes"),
        *("1 drains under load", "models that came and went"),
    ):
        assert fault in soak.stdout
    for kind in ("http", "packed", "upload"):
        assert re.search(rf"^{kind} +[1-9]", soak.stdout, re.MULTILINE)
