"""Transfers in the runtime's record: overlap, waits, copies, and calls of CUDA in a batch."""

import json

import pytest

PROGRAM = """
import asyncio, json
import numpy as np
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.kinds.sample import SampleWork, one_point
from tests.support.compute.scheduling import batch_of, clouds_of

random = np.random.default_rng(1)
BATCHES = [
    batch_of(clouds_of(random, *lengths, with_distances=len(lengths) == 2))
    for lengths in (random.integers(2, 300, random.integers(1, 4)) for _ in range({batches}))
]
# Memory of its own, which a trim in the middle of a later batch would free.
for i in range(20, {batches}, 100):
    BATCHES[i] = batch_of(clouds_of(random, 200_000, per_sample=200_000))

async def answers(device):
    made = torch.device(device)
    engine = CpuEngine(1) if device == "cpu" else CudaEngine(made, 1, manager_of(made, Gate()))
    await engine.start(SampleWork(one_point()))
    try:
        await engine.submit(BATCHES[0])
        before = {{name: count(name) for name in NAMES}}
        groups = [BATCHES[i : i + 8] for i in range(0, len(BATCHES), 8)]
        done = [await asyncio.gather(*map(engine.submit, group)) for group in groups]
        after = {{name: count(name) - before[name] for name in NAMES}}
        return sum(done, []), after
    finally:
        engine.close()

NAMES = (
    "cudaFree", "cudaDeviceSynchronize", "cudaStreamSynchronize", "kernels", "copy to device",
    "copy from device", "asynchronous copies of pageable memory", "copy to device, pageable",
    "copy from device, pageable", "cudaMalloc", "cudaHostAlloc", "races",
)
(on_device, counted), (on_cpu, _) = (asyncio.run(answers(d)) for d in ("cuda:0", "cpu"))
for batch, expected in zip(on_device, on_cpu, strict=True):
    for got, wanted in zip(batch, expected, strict=True):
        np.testing.assert_array_equal(got.rows, wanted.rows)
        if wanted.distances is not None:
            np.testing.assert_array_equal(got.distances, wanted.distances)
print("COUNTED", json.dumps(counted))
"""


def counted_of(output: str) -> dict[str, int]:
    line = next(line for line in output.splitlines() if line.startswith("COUNTED"))
    return json.loads(line.removeprefix("COUNTED"))


@pytest.mark.parametrize(
    ("batches", "seed"), [(40, 1), (40, 2), pytest.param(1000, 0, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(900)
def test_mixed_batches_are_right_and_none_waits_frees_or_races(run, batches, seed):
    """Whatever the streams' delays, which the seed gives."""
    ended = run(PROGRAM.format(batches=batches), timeout_s=900, SEED=seed)
    assert (ended.status, ended.findings) == (0, ""), ended.output
    counted = counted_of(ended.output)
    print(f"\nin {batches} batches: {counted}")
    assert counted["cudaFree"] == counted["cudaDeviceSynchronize"] == 0
    assert counted["cudaStreamSynchronize"] == 0
    assert counted["copy to device"] == batches  # one for each batch, from pinned memory
    assert counted["asynchronous copies of pageable memory"] == 0
    assert counted["copy to device, pageable"] == counted["copy from device, pageable"] == 0


BATCHES = """
import asyncio, json
import numpy as np
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.work import Outcome
from farpoint_server.kinds.sample import SampleWork, one_point
from tests.support.messages import sample_request
from tests.support.messages import read, timeless

DEVICE, random = torch.device("cuda:0"), np.random.default_rng(1)
NAMES = (
    "calls", "cudaEventQuery", "cudaEventSynchronize", "cudaEventCreate", "cudaStreamWaitEvent",
    "cudaMalloc", "cudaFree", "cudaHostAlloc", "copy to device", "copy from device", "kernels",
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "asynchronous copies of pageable memory",
)

def counted():
    return {name: count(name) for name in NAMES}

def requests(number, points):
    clouds = random.random((number, points, 3), np.float32)
    return [sample_request(cloud, 5, return_distances=True).SerializeToString() for cloud in clouds]

async def run(raws, times):
    engine = CudaEngine(DEVICE, 1, manager_of(DEVICE, Gate()))
    await engine.start(SampleWork(one_point()))
    try:
        await engine.submit(Batch([*map(read, raws)]))
        for _ in range(times):
            before, works = counted(), [*map(read, raws)]
            answers = await engine.submit(Batch(works))
            after = counted()
            for work, raw, answer in zip(works, raws, answers, strict=True):
                response = work.respond(Outcome(answer, 0, 0))
                assert timeless(response) == timeless(read(raw).inline(10**9))
        return {name: after[name] - before[name] for name in NAMES}
    finally:
        engine.close()
"""
# Asking for the event again and again counts as one call.
MOST_CALLS = 10


def test_a_batch_of_small_messages_is_at_most_ten_calls_of_cuda(run):
    """One copy each way, no event made, no wait between streams, nothing allocated."""
    program = BATCHES + 'print("COUNTED", json.dumps(asyncio.run(run(requests(200, 40), 3))))'
    ended = run(program)
    assert (ended.status, ended.findings) == (0, ""), ended.output
    counted = counted_of(ended.output)
    print(f"\na batch of 200 messages: {counted}")
    assert counted["calls"] - counted["cudaEventQuery"] + 1 <= MOST_CALLS
    assert counted["copy to device"] == counted["copy from device"] == counted["kernels"] == 1
    for name in (
        *("cudaEventCreate", "cudaStreamWaitEvent", "cudaMalloc", "cudaFree", "cudaHostAlloc"),
        *("cudaStreamSynchronize", "cudaDeviceSynchronize"),
        "asynchronous copies of pageable memory",
    ):
        assert counted[name] == 0, name


def test_a_batch_is_uploaded_before_the_kernel_of_the_one_before_has_ended(run, tmp_path):
    """The kernel of the first one hangs until the next one is on the device; then both go on."""
    control = tmp_path / "control"
    ended = run(
        BATCHES
        + f"""
from pathlib import Path

async def overlapped():
    engine, control = CudaEngine(DEVICE, 1, manager_of(DEVICE, Gate())), Path({str(control)!r})
    await engine.start(SampleWork(one_point()))
    raws = requests(2, 300)
    works, begun = [*map(read, raws)], count("copy to device")
    control.write_text("HANG 1")
    running = [engine.submit(Batch([work])) for work in works]
    while count("copy to device") < begun + 2 or count("injected hangs") < 1:
        await asyncio.sleep(0.002)
    assert not any(answers.done() for answers in running)
    control.write_text("HANG 0")
    for work, raw, (answer,) in zip(works, raws, await asyncio.gather(*running), strict=True):
        response = work.respond(Outcome(answer, 0, 0))
        assert timeless(response) == timeless(read(raw).inline(10**9))
    engine.close()

asyncio.run(overlapped())
""",
        CONTROL=control,
    )
    assert ended.status == 0, ended.output
    assert [line for line in ended.findings.splitlines() if "injected" not in line] == []
