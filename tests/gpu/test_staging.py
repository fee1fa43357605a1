"""Staging on a real GPU: what overlaps, what never waits, right answers; in `make gpu-check`."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

import numpy as np
import pytest
import torch
from tests.support.compute.scheduling import batch_of, clouds_of
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from farpoint_server.compute.memory.cuda import CudaAllocator
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.host import Heap
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.transfer.device import CudaDevice
from farpoint_server.compute.transfer.queue import TransferQueue
from farpoint_server.compute.transfer.transfer import PINNED_BYTES
from farpoint_server.compute.work import Joined, Launch
from farpoint_server.kinds.sample import SampleWork, one_point

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE = torch.device("cuda", 0)
RANDOM = np.random.default_rng(17)
clouds = partial(clouds_of, RANDOM, per_sample=4)
# Some tens of milliseconds on any GPU: longer than it takes to stage and copy the batches below.
SPIN_CYCLES = 60_000_000
POINTS = 500_000
BOTH = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
WAITS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def transfers(gate: Gate) -> Iterator[TransferQueue]:
    with torch.cuda.device(DEVICE):
        transfers = TransferQueue(CudaDevice(DEVICE), gate.hold_shared)
        yield transfers
    transfers.wait(0)
    transfers.stop()


def spin(points: torch.Tensor, **_: object) -> Sequence[torch.Tensor]:
    """A kernel that takes its time and leaves the GPU's copy engines alone."""
    torch.cuda._sleep(SPIN_CYCLES)
    return (points * 2,)


def start(transfers: TransferQueue, gate: Gate, launches: Sequence[Launch]) -> Future:
    answer: Future = Future()
    with gate.reading():
        transfers.start(launches, lambda outputs, _: answer.set_result(outputs))
    return answer


def run(transfers: TransferQueue, gate: Gate, batch: Sequence[np.ndarray]) -> Future:
    return start(transfers, gate, [Launch(spin, Joined([batch]))])


def device_events(profiled: profile, name: str) -> list[tuple[float, float]]:
    """Begin and end, in microseconds, of what the GPU did under a name."""
    return [
        (event.time_range.start, event.time_range.end)
        for event in profiled.events()
        if event.device_type == DeviceType.CUDA and name in event.name
    ]


def overlapping(copies: list[tuple[float, float]], kernels: list[tuple[float, float]]) -> int:
    """Number of copies that ran while one of the kernels did."""
    return sum(any(k[0] < c[1] and c[0] < k[1] for k in kernels) for c in copies)


def test_copies_of_neighbor_batches_overlap_the_kernels(transfers, gate):
    batches = [[RANDOM.random((POINTS, 3), np.float32)] for _ in range(5)]
    run(transfers, gate, batches[0]).result()
    with profile(activities=BOTH) as profiled:
        answers = [run(transfers, gate, batch) for batch in batches]
        results = [answer.result() for answer in answers]
    for result, (points,) in zip(results, batches, strict=True):
        np.testing.assert_array_equal(result[0][0], points * 2)
    kernels = device_events(profiled, "spin")
    uploads, downloads = (device_events(profiled, f"Memcpy {way}") for way in ("HtoD", "DtoH"))
    assert len(kernels) == len(uploads) == len(downloads) == len(batches)
    overlaps = overlapping(uploads, kernels), overlapping(downloads, kernels)
    print(
        f"\nof {len(batches)} batches {overlaps} copies ran while kernels did (uploads, downloads)"
    )
    # The first upload and the last download have no neighbor.
    assert min(overlaps) >= len(batches) - 2
    assert len(device_events(profiled, "Memcpy HtoD (Pinned")) == len(batches)


def test_nothing_waits_for_the_card_or_for_a_stream(transfers, gate):
    def submit(works: Sequence[SampleWork]) -> Future:
        return start(transfers, gate, SampleWork.launches(works))

    requests = clouds(20_000, 500), clouds(100_000, with_distances=True)
    batches = [[SampleWork(request) for request in requests] for _ in range(4)]
    submit(batches[0]).result()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with profile(activities=BOTH) as profiled, record_function("staged"):
            for answer in [submit(batch) for batch in batches]:
                answer.result()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    events = [event for event in profiled.events() if event.device_type == DeviceType.CPU]
    (staged,) = (event.time_range for event in events if event.name == "staged")
    # The profiler itself waits for the GPU at its end.
    inside = [
        event.name
        for event in events
        if staged.start <= event.time_range.start and event.time_range.end <= staged.end
    ]
    assert inside.count("cudaMemcpyAsync") >= 2 * len(batches), "the driver's calls are not seen"
    assert [name for name in inside if name in WAITS] == []


def test_buffers_are_locked_once_and_given_back(transfers, gate):
    batch = [RANDOM.random((1000, 3), np.float32)]
    for _ in range(3):
        run(transfers, gate, batch).result()
    before = torch.cuda.host_memory_stats()["num_host_alloc"]
    for _ in range(20):
        run(transfers, gate, batch).result()
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == before
    transfers.wait(0)
    assert gate.readers == 0
    held = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    transfers.release_buffers()
    CudaAllocator(DEVICE, 1.0, Heap()).trim_host()
    left = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    assert held - left >= 2 * PINNED_BYTES


def test_an_engine_answers_two_batches_at_a_time_as_a_cpu_does():
    pytest.importorskip("grpc", reason="the server's errors need it")
    from farpoint_server.compute.cpu import CpuEngine
    from farpoint_server.compute.cuda import CudaEngine

    batches = [batch_of(clouds(5000, 70), clouds(900, with_distances=True)) for _ in range(8)]

    async def answers(make: Callable[[], object]) -> list:
        engine = make()
        await engine.start(SampleWork(one_point()))
        try:
            return await asyncio.gather(*map(engine.submit, batches))
        finally:
            trim = await engine.call(engine.memory.trim)
            assert trim is not None
            engine.close()

    def on_gpu() -> CudaEngine:
        return CudaEngine(DEVICE, 1, manager_of(DEVICE, Gate()))

    on_device, on_cpu = (asyncio.run(answers(make)) for make in (on_gpu, lambda: CpuEngine(1)))
    for batch, expected in zip(on_device, on_cpu, strict=True):
        for got, wanted in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(got.rows, wanted.rows)
            if wanted.distances is not None:
                np.testing.assert_array_equal(got.distances, wanted.distances)
