"""Loading and unloading while requests come in; the trial of programs."""

import asyncio
import threading

import numpy as np
import pytest
import torch
from tests.support.programs import Segmenter, segmenter_manifest
from torch import Tensor, nn

from farpoint_models import DensityEncoder, EncoderConfig, save_encoder
from farpoint_models.programs import Batching, Manifest, ProgramError, Role, TensorSpec
from farpoint_models.programs.export import export_program
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.errors import InvalidRequestError, OverloadedError, StartError
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.model import TrialWork
from farpoint_server.models import trial
from farpoint_server.models.registry import Registry
from farpoint_server.models.trial import try_program
from farpoint_server.transport.grpc.health import Health

TINY = EncoderConfig(rates=(0.5,), channels=4, hidden=4, neighbors=4, groups=2)
RANDOM = np.random.default_rng(0)
CLOUD = ModelInput(np.array([50]), {"points": RANDOM.random((50, 3), np.float32)})


@pytest.fixture
def path(tmp_path):
    save_encoder(DensityEncoder(TINY), tmp_path / "tiny.safetensors")
    return tmp_path / "tiny.safetensors"


@pytest.fixture
def engine():
    engine = CpuEngine(1)
    yield engine
    engine.close()


@pytest.fixture
async def health():
    health = Health(["fps"])
    health.set_all(serving=True)
    return health


@pytest.fixture
async def registry(engine, health):
    return Registry([engine], health)


@pytest.fixture
def before_warm_up(monkeypatch):
    """Runs a function before each model is warmed up."""
    launches = TrialWork.launches

    def use(before):
        monkeypatch.setattr(
            TrialWork, "launches", staticmethod(lambda works: (before(), launches(works))[1])
        )

    return use


async def test_a_model_is_ready_only_once_it_is_warm(registry, health, path, before_warm_up):
    may_warm_up = threading.Event()
    warming_up = threading.Event()

    def wait():
        warming_up.set()
        assert may_warm_up.wait(10)

    before_warm_up(wait)
    loading = asyncio.create_task(registry.load("tiny", path))
    assert await asyncio.to_thread(warming_up.wait, 10)
    assert not registry.models
    assert not health.knows("tiny")
    may_warm_up.set()
    assert await loading is registry.get("tiny")
    assert health.knows("tiny")


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "fps", "../a"])
async def test_a_name_that_cannot_be_asked_for_is_refused(registry, path, name):
    with pytest.raises(InvalidRequestError, match=r"^name: "):
        await registry.load(name, path)


async def test_a_wrong_file_of_the_settings_keeps_the_server_from_starting(registry, tmp_path):
    with pytest.raises(StartError, match=r"model a=.*No such file"):
        await registry.load_all([f"a={tmp_path / 'a'}"])


async def test_a_device_without_memory_for_a_model_is_overloaded(registry, path, before_warm_up):
    def run_out():
        raise torch.OutOfMemoryError("CUDA out of memory")

    before_warm_up(run_out)
    with pytest.raises(OverloadedError):
        await registry.load("tiny", path)
    assert not registry.models


async def test_no_engine_is_trimmed_while_a_model_is_warmed_up(
    registry, engine, path, before_warm_up
):
    """As a manager of another engine would, which shares the gate."""
    seen = []
    before_warm_up(lambda: seen.append(engine.memory.trim_if_idle(0)))
    await registry.load("tiny", path)
    assert seen == [None]


POINTS = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
SUMS = TensorSpec("sums", Role.PER_CLOUD, "float32", ("B",))
MANIFEST = Manifest(Batching.EQUAL, (POINTS,), (SUMS,))
LARGE = 1 << 31


class Greedy(nn.Module):
    """Takes 8 GiB for any cloud."""

    def forward(self, xyz: Tensor) -> Tensor:
        return (xyz[:, :, :1] * torch.ones(LARGE)).sum((1, 2))


async def test_a_program_that_takes_too_much_memory_is_refused(tmp_path):
    varies = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    exported = torch.export.export(Greedy(), (torch.zeros(2, 5, 3),), dynamic_shapes=(varies,))
    exported.example_inputs = None
    path = tmp_path / "greedy.pt2"
    torch.export.save(exported, path, extra_files={"farpoint.json": MANIFEST.to_json()})
    with pytest.raises(ProgramError, match="memory"):
        await try_program(path, runs=True)


async def test_a_program_that_takes_too_long_is_refused(tmp_path):
    export_program(Segmenter(), segmenter_manifest(), tmp_path / "a.pt2")
    with pytest.raises(ProgramError, match="within 1 s"):
        await try_program(tmp_path / "a.pt2", runs=True, timeout_s=1)


async def test_a_file_that_is_not_there_is_named_by_the_trial(tmp_path):
    with pytest.raises(ProgramError, match=r"No such file or directory: .*none\.pt2"):
        await try_program(tmp_path / "none.pt2", runs=True)


async def test_a_process_that_dies_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(trial.sys, "executable", "/bin/false")
    with pytest.raises(ProgramError, match="ended with status 1"):
        await try_program(tmp_path / "a.pt2", runs=True)
