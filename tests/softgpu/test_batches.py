"""What a batch of samples costs in calls of CUDA, and what it overlaps, in the runtime's record."""

from tests.softgpu.test_staging import counted_of

PROGRAM = """
import asyncio, json
import numpy as np
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.work import Outcome
from farpoint_server.kinds.sample import SampleWork, one_point
from tests.support.messages import sample_request
from tests.support.raw_sample import read, timeless

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
    program = PROGRAM + 'print("COUNTED", json.dumps(asyncio.run(run(requests(200, 40), 3))))'
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
        PROGRAM
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
