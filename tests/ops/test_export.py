"""torch.export and AOTInductor of a network stage made of the ops."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from farpoint_ops import (
    ball_query,
    farthest_point_sample,
    gather_points,
    group_points,
    interpolate,
    knn,
    nearest_sample,
)


class Stage(nn.Module):
    """Down to 8 samples and up to all points again."""

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> (B, C, N) and the sample of each point (B, N)."""
        rows, radii = farthest_point_sample(xyz, 8, return_distances=True)
        samples = gather_points(xyz.transpose(1, 2), rows).transpose(1, 2)
        near, squared = knn(xyz, samples, 3)
        inside, _ = ball_query(xyz, samples, 1.0, 4, min_radius=0.1)
        groups = group_points(features, near).sum(-1) + group_points(features, inside).sum(-1)
        corners, distances = knn(samples, xyz, 3)
        scaled = groups * (radii + squared.sum(-1))[:, None]
        assignment, _ = nearest_sample(xyz, samples)
        return interpolate(scaled, corners, 1 / (1 + distances)), assignment


def clouds(device: torch.device, batch: int, n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    xyz = torch.randn(batch, n, 3, generator=generator).to(device)
    return xyz, torch.randn(batch, 5, n, generator=generator).to(device)


def exported(device: torch.device) -> torch.export.ExportedProgram:
    batch, n = torch.export.Dim("batch", max=64), torch.export.Dim("n", min=8, max=4096)
    dims = ({0: batch, 1: n}, {0: batch, 2: n})
    return torch.export.export(Stage(), clouds(device, 2, 40), dynamic_shapes=dims)


def test_an_exported_program_takes_any_size(device: torch.device) -> None:
    program = exported(device).module()
    for batch, n in ((2, 40), (3, 61), (1, 8)):
        arguments = clouds(device, batch, n)
        torch.testing.assert_close(program(*arguments), Stage()(*arguments))


def test_an_exported_program_can_be_saved(device: torch.device, tmp_path: Path) -> None:
    torch.export.save(exported(device), tmp_path / "stage.pt2")
    loaded = torch.export.load(tmp_path / "stage.pt2").module()
    arguments = clouds(device, 3, 50)
    torch.testing.assert_close(loaded(*arguments), Stage()(*arguments))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside torch
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.timeout(300)
def test_aot_inductor_runs_the_same_program(device: torch.device, tmp_path: Path) -> None:
    """Compiled to a shared library by a C++ compiler, and run from it."""
    package = torch._inductor.aoti_compile_and_package(
        exported(device), package_path=str(tmp_path / "stage.pt2")
    )
    compiled = torch._inductor.aoti_load_package(package)
    for batch, n in ((2, 40), (3, 61)):
        arguments = clouds(device, batch, n)
        torch.testing.assert_close(compiled(*arguments), Stage()(*arguments))
