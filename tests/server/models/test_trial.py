"""A program that hangs, grows or ends its process is tried in one of its own."""

import pytest
import torch
from tests.support.programs import Segmenter, segmenter_manifest
from torch import Tensor, nn

from farpoint_models.programs import Batching, Manifest, ProgramError, Role, TensorSpec
from farpoint_models.programs.export import export_program
from farpoint_server.models import trial
from farpoint_server.models.trial import try_program

POINTS = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
SUMS = TensorSpec("sums", Role.PER_CLOUD, "float32", ("B",))
MANIFEST = Manifest(Batching.EQUAL, (POINTS,), (SUMS,))
LARGE = 1 << 23


class Greedy(nn.Module):
    """Takes 32 MB for each point."""

    def forward(self, xyz: Tensor) -> Tensor:
        return (xyz[:, :, :1] * torch.ones(LARGE)).sum((1, 2))


async def test_a_program_that_loads_and_runs_is_not_refused(tmp_path):
    export_program(Segmenter(), segmenter_manifest(), tmp_path / "a.pt2")
    await try_program(tmp_path / "a.pt2", runs=True)


async def test_a_program_that_takes_too_much_memory_is_refused(tmp_path):
    varies = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    exported = torch.export.export(Greedy(), (torch.zeros(2, 5, 3),), dynamic_shapes=(varies,))
    exported.example_inputs = None
    path = tmp_path / "greedy.pt2"
    torch.export.save(exported, path, extra_files={"farpoint.json": MANIFEST.to_json()})
    await try_program(path, runs=False)
    with pytest.raises(ProgramError, match="memory"):
        await try_program(path, runs=True)


async def test_a_program_that_takes_too_long_is_refused(tmp_path):
    export_program(Segmenter(), segmenter_manifest(), tmp_path / "a.pt2")
    with pytest.raises(ProgramError, match="within 1 s"):
        await try_program(tmp_path / "a.pt2", runs=True, timeout_s=1)


async def test_a_process_that_dies_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(trial.sys, "executable", "/bin/false")
    with pytest.raises(ProgramError, match="ended with status 1"):
        await try_program(tmp_path / "a.pt2", runs=True)
