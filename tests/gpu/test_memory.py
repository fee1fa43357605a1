"""The promises of docs/operations.md on a real GPU; part of `make gpu-check`."""

import multiprocessing
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from farpoint_ops import farthest_point_sample_ragged
from farpoint_server.compute.memory.cuda import CudaAllocator
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.host import Heap
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.oom import OutOfMemory
from farpoint_server.compute.memory.policy import Thresholds
from farpoint_server.compute.memory.snapshot import Reason
from farpoint_server.kinds.sample import sample_bytes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MIB = 1 << 20
COUNTERS = ("num_device_free", "num_alloc_retries", "num_sync_all_streams")
SIZES = (1_000, 4_096, 16_384, 65_536, 120_000, 400_000)
RANDOM = np.random.default_rng(5)
SAMPLES = 16
DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True)
class Cloud:
    """A request of one cloud, in pinned host memory."""

    points: torch.Tensor


def cloud(points: int) -> Cloud:
    return Cloud(torch.rand(points, 3).pin_memory())


def sample(batch: "CloudBatch") -> list[np.ndarray]:
    """Rows of SAMPLES points of each cloud."""
    offsets = torch.tensor([0, *(len(r.points) for r in batch.requests)]).cumsum(0)
    points = torch.cat([r.points.to(DEVICE, non_blocking=True) for r in batch.requests])
    with torch.inference_mode():
        rows = farthest_point_sample_ragged(points, offsets.tolist(), SAMPLES)
    return list(rows.cpu().numpy().reshape(len(batch), SAMPLES))


@dataclass(frozen=True)
class CloudBatch:
    """Requests that a manager may cut between them."""

    requests: Sequence[Cloud]

    @property
    def predicted_bytes(self) -> int:
        points = sum(len(request.points) for request in self.requests)
        return sample_bytes(points, len(self), SAMPLES * len(self))

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, requests: slice) -> "CloudBatch":
        return CloudBatch(self.requests[requests])

    def halve(self) -> None:
        return None

    def join(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def new_manager(
    thresholds: Thresholds | None = None,
    *,
    fraction: float = 1.0,
    **options: object,
) -> Manager:
    """A manager of GPU 0."""
    allocator = CudaAllocator(DEVICE, fraction, Heap())
    return Manager(allocator, thresholds or Thresholds(), Gate(), **options)


@pytest.fixture(autouse=True)
def empty_card() -> Iterator[None]:
    yield
    torch.cuda.set_per_process_memory_fraction(1.0, 0)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def counters() -> list[int]:
    stats = torch.cuda.memory_stats(0)
    return [stats.get(name, 0) for name in COUNTERS]


def test_nothing_is_freed_flushed_or_synchronized_inside_any_of_1000_forwards():
    """A policy that trims as often as it may works between them."""
    eager = Thresholds(interval_s=0.05, idle_s=0, min_trim_bytes=MIB)
    clouds = [cloud(size) for size in SIZES]
    manager = new_manager(eager, bounded=True)
    moved = []

    def forward(batch: CloudBatch) -> list[np.ndarray]:
        before = counters()
        answers = sample(batch)
        moved.append([b - a for a, b in zip(before, counters(), strict=True)])
        return answers

    for _ in range(1000):
        batch = [clouds[i] for i in RANDOM.integers(0, len(clouds), RANDOM.integers(1, 5))]
        manager.run(CloudBatch(batch), forward)
        manager.poll(waiting=0)
    assert len(moved) >= 1000
    assert np.array(moved).sum(0).tolist() == [0, 0, 0]


def trim_a_filled_cache() -> tuple[int, int, int]:
    """Bytes that were predicted to be released, that were, and that are still releasable."""
    allocator = CudaAllocator(DEVICE, 1.0, Heap())
    kept, dropped = [], []
    for i, size in enumerate([3, 0.2, 9, 40, 5, 130, 0.7, 17] * 4):
        block = torch.empty(int(size * MIB), dtype=torch.uint8, device=DEVICE)
        (kept if i % 3 == 0 else dropped).append(block)
    del block
    dropped.clear()
    before = allocator.stats()
    allocator.trim()
    after = allocator.stats()
    return before.releasable, before.reserved - after.reserved, after.releasable


def test_reserved_memory_falls_by_what_was_predicted():
    """In a process of its own, whose cache holds nothing else."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        predicted, fell, left = pool.submit(trim_a_filled_cache).result()
    assert predicted > 100 * MIB
    assert (fell, left) == (predicted, 0)


def test_after_idling_a_second_process_can_allocate_most_of_the_card():
    manager = new_manager(Thresholds(idle_s=0.2, interval_s=0.1))
    manager.run(CloudBatch([cloud(1000)]), sample)
    total = torch.cuda.get_device_properties(0).total_memory
    filler = torch.empty(int(0.5 * total), dtype=torch.uint8, device=DEVICE)
    del filler
    assert torch.cuda.memory_reserved(0) >= 0.5 * total
    time.sleep(0.3)
    assert manager.poll(waiting=0).reason is Reason.IDLE
    program = f"import torch; torch.empty(int(0.9 * {total}), dtype=torch.uint8, device='cuda:0')"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_real_out_of_memory_recovers_and_the_next_request_succeeds():
    total = torch.cuda.get_device_properties(0).total_memory
    manager = new_manager(fraction=0.02)
    too_many = int(0.03 * total / 12)
    large, small = Cloud(torch.zeros(too_many, 3)), cloud(4096)
    reference = weakref.ref(large)
    answers = manager.run(CloudBatch([small, large, small]), sample)
    assert isinstance(answers[1], OutOfMemory)
    assert answers[0].tolist() == answers[2].tolist()
    del large
    assert reference() is None
    assert torch.cuda.memory_allocated(0) == 0
    assert len(manager.run(CloudBatch([small]), sample)) == 1
    assert manager.snapshot.oom_count == 1


def test_no_trim_is_made_while_a_graph_is_captured():
    manager, graph = new_manager(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        filled = torch.zeros(1000, device=DEVICE)
        assert manager.trim() is None
    graph.replay()
    assert filled.sum() == 0
    assert manager.trim() is not None
