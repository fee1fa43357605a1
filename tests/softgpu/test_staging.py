"""The engine's transfers in the runtime's record: overlap, waits and copies."""

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


def test_a_batch_is_uploaded_and_the_one_before_answered_while_a_kernel_runs(run, tmp_path):
    """The kernel of each batch is held until the next one is on the device: else this hangs."""
    timeline = tmp_path / "timeline"
    ended = run(
        """
        import os, time, numpy as np
        from concurrent.futures import Future
        from farpoint_server.compute.memory.gate import Gate
        from farpoint_server.compute.transfer.device import CudaDevice
        from farpoint_server.compute.transfer.queue import TransferQueue
        from farpoint_server.compute.work import Joined, Launch
        gate, ends = Gate(), []
        transfers = TransferQueue(CudaDevice(torch.device("cuda", 0)), gate.hold_shared)
        clouds = [np.random.default_rng(i).random((50_000, 3), np.float32) for i in range(4)]
        def held(points):
            ends.append(hold())
            return (points * 2,)
        def submit(i):
            answer = Future()
            with gate.reading():
                launch = Launch(held, Joined([[clouds[i]]]))
                transfers.start([launch], lambda outputs, _: answer.set_result(outputs[0][0]))
            return answer
        def uploads():
            with open(os.environ["SOFTGPU_TIMELINE"]) as spans:
                return spans.read().count("copy to device")
        torch.zeros(3, device="cuda") * 2  # the first call of an op takes seconds
        answer = submit(0)
        for i in range(1, len(clouds)):
            following = submit(i)
            while uploads() <= i:
                time.sleep(0.01)
            ends[i - 1].set()
            np.testing.assert_array_equal(answer.result(), clouds[i - 1] * 2)
            answer = following
        ends[-1].set()
        np.testing.assert_array_equal(answer.result(), clouds[-1] * 2)
        """,
        TIMELINE=timeline,
    )
    assert (ended.status, ended.findings) == (0, ""), ended.output
