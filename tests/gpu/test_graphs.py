"""CUDA graphs of the encoder on a real GPU: answers, memory, trims; in `make gpu-check`."""

import asyncio

import numpy as np
import pytest
import torch

pytest.importorskip("grpc", reason="the server's errors need it")
from farpoint_models import default_encoder
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.transfer.graphs import USES
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.encoder import as_flat, manifest_of
from farpoint_server.kinds.model import LoadedModel, ModelWork
from farpoint_server.kinds.sample import SampleWork, one_point

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
RANDOM = np.random.default_rng(23)
COUNTERS = ("num_device_free", "num_alloc_retries", "num_sync_all_streams")


def encoder() -> LoadedModel:
    model = LoadedModel("encoder", manifest_of(default_encoder().config))
    for device in (CPU, GPU):
        made = default_encoder().requires_grad_(False).to(device)
        model.put(device, as_flat(made), is_capturable=True)
    torch.cuda.synchronize()
    return model


def batch_of(model: LoadedModel, *lengths: int) -> Batch:
    clouds = [RANDOM.random((n, 3), np.float32) for n in lengths]
    inputs = [ModelInput(np.array([len(points)]), {"points": points}, {}) for points in clouds]
    return Batch([ModelWork(model, each) for each in inputs])


def freed() -> list[int]:
    stats = torch.cuda.memory_stats(GPU)
    return [stats[name] for name in COUNTERS]


async def check(gpu: CudaEngine, cpu: CpuEngine, batch: Batch) -> None:
    """Rows are those of a CPU, but where features decide; features nearly."""
    for got, wanted in zip(await gpu.submit(batch), await cpu.submit(batch), strict=True):
        for name, output in wanted.items():
            np.testing.assert_allclose(got[name].values, output.values, rtol=2e-3, atol=2e-3)


def test_graphs_of_an_encoder_answer_as_a_cpu_and_are_freed_by_a_trim():
    async def run() -> None:
        gpu, cpu = CudaEngine(GPU, 1, manager_of(GPU, Gate())), CpuEngine(1)
        model = encoder()
        await gpu.start(SampleWork(one_point()))
        try:
            for _ in range(2):
                before = freed()
                for lengths in [(400, 390, 385)] * (USES + 2) + [(399, 250, 250, 400)]:
                    await check(gpu, cpu, batch_of(model, *lengths))
                assert gpu.memory.aside.size > 0
                await asyncio.gather(*(gpu.submit(batch_of(model, 400, 390)) for _ in range(24)))
                assert freed() == before
                assert await gpu.call(gpu.memory.trim)
                assert gpu.memory.aside.size == 0
        finally:
            gpu.close()
            cpu.close()

    asyncio.run(run())
