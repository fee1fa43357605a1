"""The promises of docs/operations.md on a real GPU; part of `make gpu-check`."""

import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.gpu import cuda_device

from farpoint_server.memory.oom import OutOfMemory
from farpoint_server.memory.policy import Thresholds
from farpoint_server.memory.snapshot import Reason

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

HERE = Path(__file__).parent
MIB = 1 << 20
COUNTERS = ("num_device_free", "num_alloc_retries", "num_sync_all_streams")
SIZES = (1_000, 4_096, 16_384, 65_536, 120_000, 400_000)
RANDOM = np.random.default_rng(5)


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
    clouds = [cuda_device.cloud(size) for size in SIZES]
    manager = cuda_device.manager(eager, bounded=True)
    moved = []

    def forward(batch: cuda_device.CloudBatch) -> list[np.ndarray]:
        before = counters()
        answers = cuda_device.forward(batch)
        moved.append([b - a for a, b in zip(before, counters(), strict=True)])
        return answers

    for _ in range(1000):
        batch = [clouds[i] for i in RANDOM.integers(0, len(clouds), RANDOM.integers(1, 5))]
        manager.run(cuda_device.CloudBatch(batch), forward)
        manager.poll(waiting=0)
    assert len(moved) >= 1000
    assert np.array(moved).sum(0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("expandable", [False, True])
def test_reserved_memory_falls_by_what_was_predicted(expandable):
    environ = {**os.environ, "PYTORCH_ALLOC_CONF": f"expandable_segments:{expandable}"}
    environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    command = [sys.executable, str(HERE / "predicted_trim.py"), str(expandable)]
    answer = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    seen = json.loads(answer.stdout)
    assert seen["predicted"] > 100 * MIB
    if expandable:  # pages that are shared with live blocks stay
        assert 0.5 * seen["predicted"] < seen["fell"] <= seen["predicted"]
    else:
        assert seen["fell"] == seen["predicted"]
        assert seen["left"] == 0


def test_after_idling_a_second_process_can_allocate_most_of_the_card():
    manager = cuda_device.manager(Thresholds(idle_s=0.2, interval_s=0.1))
    manager.run(cuda_device.CloudBatch([cuda_device.cloud(1000)]), cuda_device.forward)
    total = torch.cuda.get_device_properties(0).total_memory
    filler = torch.empty(int(0.5 * total), dtype=torch.uint8, device=cuda_device.DEVICE)
    del filler
    assert torch.cuda.memory_reserved(0) >= 0.5 * total
    time.sleep(0.3)
    assert manager.poll(waiting=0).reason is Reason.IDLE
    program = f"import torch; torch.empty(int(0.9 * {total}), dtype=torch.uint8, device='cuda:0')"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_real_out_of_memory_recovers_and_the_next_request_succeeds():
    total = torch.cuda.get_device_properties(0).total_memory
    manager = cuda_device.manager(fraction=0.02)
    too_many = int(0.03 * total / 12)
    large, small = cuda_device.Cloud(torch.zeros(too_many, 3)), cuda_device.cloud(4096)
    reference = weakref.ref(large)
    answers = manager.run(cuda_device.CloudBatch([small, large, small]), cuda_device.forward)
    assert isinstance(answers[1], OutOfMemory)
    assert answers[0].tolist() == answers[2].tolist()
    del large
    assert reference() is None
    assert torch.cuda.memory_allocated(0) == 0
    assert len(manager.run(cuda_device.CloudBatch([small]), cuda_device.forward)) == 1
    assert manager.snapshot.oom_count == 1


def test_the_time_of_a_trim_grows_with_its_segments(record_property):
    """Prints the table that docs/operations.md asks for; run with -s to see it."""
    manager = cuda_device.manager()
    table = {}
    total = torch.cuda.get_device_properties(0).total_memory
    for segments in (1, 10, 100, 1000):
        if segments * 20 * MIB > 0.8 * total:
            break
        blocks = [torch.empty(20 * MIB, dtype=torch.uint8, device="cuda") for _ in range(segments)]
        del blocks
        trim = manager.trim_if_idle(waiting=0)
        assert trim.returned_bytes >= segments * 20 * MIB
        table[segments] = round(1e3 * trim.seconds, 3)
    print(f"\nsegments: ms of a trim: {table}")
    record_property("trim_ms", table)
    assert table[1] < 1000


def test_the_policy_does_not_cost_the_99th_percentile():
    """Blocks of both kinds take turns, so that both meet the same cuda_device."""
    clouds = [cuda_device.cloud(size) for size in SIZES[:4]]
    managers = {on: cuda_device.manager(enabled=on) for on in (True, False)}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for block in range(20):
        on = block % 2 == 0
        last_tend = time.monotonic()
        for i in range(150):
            begun = time.perf_counter()
            managers[on].run(cuda_device.CloudBatch([clouds[i % len(clouds)]]), cuda_device.forward)
            if block > 1:
                seconds[on].append(time.perf_counter() - begun)
            if on and time.monotonic() - last_tend > 0.25:
                managers[on].poll(waiting=0)
                last_tend = time.monotonic()
    p99 = {on: float(np.percentile(values, 99)) for on, values in seconds.items()}
    print(f"\np99 ms: policy on {1e3 * p99[True]:.3f}, off {1e3 * p99[False]:.3f}")
    assert p99[True] <= 1.05 * p99[False]
