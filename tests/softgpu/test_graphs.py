"""CUDA graphs of models, and batches of models that overlap, in the runtime's record."""

import pytest

PROGRAM = """
import asyncio, gc
import numpy as np
from structlog.testing import capture_logs
from torch import nn
from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_ops import farthest_point_sample, gather_points
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.transfer.graphs import USES
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.encoder import as_flat, manifest_of
from farpoint_server.kinds.model import LoadedModel, ModelWork
from farpoint_server.kinds.sample import SampleWork, one_point

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
RANDOM = np.random.default_rng(3)
POOLED = Manifest(
    Batching.EQUAL,
    (TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3)),),
    (
        TensorSpec("scores", Role.PER_POINT, "float32", ("B", 5, "N")),
        TensorSpec("picks", Role.PER_SAMPLE, "int32", ("B", "M")),
        TensorSpec("pooled", Role.PER_CLOUD, "float32", ("B", 5)),
    ),
)
NEVER = ("cudaFree", "cudaDeviceSynchronize", "cudaStreamSynchronize")

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 5)
    def forward(self, inputs):
        scores = self.lift(inputs[0]).relu()
        return [scores.mT, farthest_point_sample(inputs[0], 4), scores.amax(1)]

MASKED = Manifest(
    Batching.PADDED,
    (*POOLED.inputs, TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))),
    POOLED.outputs[::2],
    {"N": (1, 39)},
)

class Masked(nn.Module):
    "Scores that show what is behind each cloud: zeros, and so often."
    def forward(self, inputs):
        xyz, lengths = inputs
        real = torch.arange(xyz.size(1), device=xyz.device) < lengths[:, None]
        sums = torch.where(real[:, :, None], xyz, 0).sum((1, 2)) + xyz.abs().sum((1, 2))
        scores = xyz.sum(2)[:, None] * torch.ones(5, 1, device=xyz.device)
        return [scores, sums[:, None].expand(-1, 5)]

def masked():
    return model_of(lambda device: Masked().to(device), MASKED)

def model_of(call, manifest=POOLED, is_capturable=True):
    model = LoadedModel("mine", manifest)
    for device in (CPU, GPU):
        model.put(device, call(device), is_capturable=is_capturable)
    torch.cuda.synchronize()
    return model

def pooled():
    torch.manual_seed(1)
    module = Pooled().requires_grad_(False)
    copies = {CPU: module, GPU: Pooled().requires_grad_(False)}
    copies[GPU].load_state_dict(module.state_dict())
    copies[GPU].to(GPU)
    return model_of(copies.get)

def encoder():
    torch.manual_seed(2)
    config = EncoderConfig(rates=(1 / 3, 1 / 3), channels=4, hidden=4, neighbors=3)
    state = DensityEncoder(config).state_dict()
    def on(device):
        made = DensityEncoder(config)
        made.load_state_dict(state)
        return as_flat(made.requires_grad_(False).to(device))
    return model_of(on, manifest_of(config))

def batch_of(model, *lengths):
    return Batch([
        ModelWork(model, ModelInput(np.array([n]), {model.manifest.points.name:
            RANDOM.random((n, 3), np.float32)}, {}))
        for n in lengths
    ])

def launches():
    return {name: count(name) for name in ("captures", "graph launches", *NEVER)}

async def same(gpu, cpu, batch):
    "The answers, which must be those of the CPU; and what the runtime counted."
    before = launches()
    found = await gpu.submit(batch)
    counted = {name: count(name) - number for name, number in before.items()}
    for got, wanted in zip(found, await cpu.submit(batch), strict=True):
        for name in wanted:
            np.testing.assert_allclose(got[name].values, wanted[name].values, 1e-4, 1e-5)
    assert not any(counted[name] for name in NEVER), counted
    return counted["captures"], counted["graph launches"]

async def main(test):
    gpu, cpu = CudaEngine(GPU, 1, manager_of(GPU, Gate())), CpuEngine(1)
    await gpu.start(SampleWork(one_point()))
    try:
        await test(gpu, cpu)
    finally:
        gpu.close()
        cpu.close()

async def used(gpu, cpu, model, *lengths):
    "Uses a model until the next call is captured."
    for _ in range(USES):
        assert await same(gpu, cpu, batch_of(model, *lengths)) == (0, 0)
"""
END = "\nasyncio.run(main(test))\n"


@pytest.fixture
def passes(run):
    """Runs a program that defines `test`; the runtime may find nothing but what is planted."""

    def passes(test: str, **settings: object) -> None:
        ended = run(PROGRAM + test + END, **settings)
        findings = [line for line in ended.findings.splitlines() if " refused: " not in line]
        assert (ended.status, findings) == (0, []), ended.output

    return passes


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_is_captured_after_a_few_uses_and_replayed_for_up_to_as_many_clouds(passes, seed):
    passes(
        """
async def test(gpu, cpu):
    model = pooled()
    await used(gpu, cpu, model, 40, 40, 40)
    assert await same(gpu, cpu, batch_of(model, 40, 40, 40)) == (1, 1)
    for clouds in (3, 4, 3):  # two or fewer are another class
        assert await same(gpu, cpu, batch_of(model, *[40] * clouds)) == (0, 1)
    assert await same(gpu, cpu, batch_of(model, 40, 40)) == (0, 0)
    assert await same(gpu, cpu, batch_of(model, 41, 41, 41)) == (0, 0)
    # Several calls of one batch use the same memory one after the other.
    many = batch_of(model, 40, 40, 40, 41, 41, 41, 40)
    await same(gpu, cpu, many)
    assert gpu.memory.aside.size > 0
""",
        SEED=seed,
    )


def test_padded_clouds_share_graphs_with_those_of_about_their_size(passes):
    passes(
        """
async def test(gpu, cpu):
    for model, most in ((encoder(), 40), (masked(), 39)):
        await used(gpu, cpu, model, 38, 33, 38)
        assert await same(gpu, cpu, batch_of(model, 38, 37, 35)) == (1, 1)
        for lengths in ((most, most, 30, 20), (37, 22, 22), (most, 33, 38)):
            assert await same(gpu, cpu, batch_of(model, *lengths)) == (0, 1)
        assert await same(gpu, cpu, batch_of(model, 36, 33, 33)) == (0, 0)
"""
    )


def test_a_trim_frees_graphs_and_they_are_captured_anew(passes):
    passes(
        """
def pools():
    return sum(tuple(s["segment_pool_id"]) != (0, 0) for s in torch.cuda.memory_snapshot())

async def test(gpu, cpu):
    model = pooled()
    for _ in range(2):
        await used(gpu, cpu, model, 30)
        assert await same(gpu, cpu, batch_of(model, 30)) == (1, 1)
        assert pools() > 0 < gpu.memory.aside.size
        await gpu.call(gpu.memory.trim)
        assert pools() == 0 == gpu.memory.aside.size
"""
    )


def test_an_unloaded_model_leaves_no_graph_and_the_next_one_gets_another_pool(passes):
    passes(
        """
import weakref

async def test(gpu, cpu):
    for _ in range(2):
        model = pooled()
        await used(gpu, cpu, model, 30)
        assert await same(gpu, cpu, batch_of(model, 30)) == (1, 1)
        kept = weakref.ref(model)
        model = None
        gc.collect()
        assert kept() is None
    await gpu.call(gpu.memory.trim)
    assert gpu.memory.aside.size == 0
"""
    )


def test_what_cannot_be_captured_is_refused_once_and_answered_as_before(passes):
    """The host asks for a number in the middle, which no capture allows; others are captured."""
    passes(
        """
class Asking(Pooled):
    def forward(self, inputs):
        scores, rows, best = super().forward(inputs)
        return [scores, rows, best * best.sum().item()]

def asking():
    return {device: Asking().requires_grad_(False).to(device) for device in (CPU, GPU)}

async def plain(gpu, batch):
    before = count("captures")
    found = await gpu.submit(batch)
    assert all(np.isfinite(answer["pooled"].values).all() for answer in found)
    return count("captures") - before

async def test(gpu, cpu):
    with capture_logs() as logs:
        model, other = model_of(asking().get), pooled()
        captures = [await plain(gpu, batch_of(model, 30)) for _ in range(2 * USES + 3)]
        assert captures == [0] * USES + [1] + [0] * (USES + 2), captures
        known = model_of(asking().get, is_capturable=False)
        assert [await plain(gpu, batch_of(known, 30)) for _ in range(USES + 2)] == [0] * (USES + 2)
        await used(gpu, cpu, other, 30)
        assert await same(gpu, cpu, batch_of(other, 30)) == (1, 1)
    assert [log["event"] for log in logs] == ["no CUDA graph", "CUDA graph"], logs
    await gpu.call(gpu.memory.trim)
    assert gpu.memory.aside.size == 0 and not gpu.memory.is_lost
    assert await same(gpu, cpu, batch_of(other, 30)) == (0, 0)
"""
    )


def test_memory_that_runs_out_in_a_capture_fails_nothing_and_a_trim_allows_the_next(
    passes, tmp_path
):
    passes(
        """
import os
async def test(gpu, cpu):
    model = pooled()
    await used(gpu, cpu, model, 30)
    with open(os.environ["SOFTGPU_CONTROL"], "w") as control:
        control.write("MALLOC_FAILS_EVERY 1\\n")
    assert await same(gpu, cpu, batch_of(model, 30)) == (1, 0)
    assert await same(gpu, cpu, batch_of(model, 30)) == (0, 0)
    with open(os.environ["SOFTGPU_CONTROL"], "w") as control:
        control.write("MALLOC_FAILS_EVERY 0\\n")
    await gpu.call(gpu.memory.trim)
    await used(gpu, cpu, model, 30)
    assert await same(gpu, cpu, batch_of(model, 30)) == (1, 1)
""",
        CONTROL=tmp_path / "control",
    )


def test_two_batches_of_models_are_on_the_device_at_a_time(passes):
    """The first one's kernels are held until those of the second have run."""
    passes(
        """
async def test(gpu, cpu):
    ends, begun = [], []
    class Held(Pooled):
        def forward(self, inputs):
            if inputs[0].is_cuda:
                begun.append(len(ends))
                if not ends:
                    ends.append(hold())
            return super().forward(inputs)
    copies = {device: Held().requires_grad_(False).to(device) for device in (CPU, GPU)}
    copies[CPU].load_state_dict(copies[GPU].state_dict())
    model = model_of(copies.get)
    first = asyncio.ensure_future(gpu.submit(batch_of(model, 30)))
    while not ends:
        await asyncio.sleep(0.001)
    second = asyncio.ensure_future(gpu.submit(batch_of(model, 31)))
    while len(begun) < 2:  # it is launched behind nothing
        await asyncio.sleep(0.001)
    assert not first.done()
    ends[0].set()
    await first
    await second
"""
    )
