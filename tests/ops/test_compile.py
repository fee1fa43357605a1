"""torch.compile, torch.export and AOTInductor: no graph break, no value read."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from farpoint_ops import (
    ball_query,
    count_points,
    farthest_point_sample,
    farthest_point_sample_ragged,
    gather_points,
    group_points,
    interpolate,
    knn,
    nearest_sample,
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


class Stage(nn.Module):
    """Down to 8 samples, their neighbors and sets, and up to all points again."""

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        """(B, N, 3), (B, C, N) -> (B, C, N)."""
        rows, radii = farthest_point_sample(xyz, 8, return_distances=True)
        samples = gather_points(xyz.transpose(1, 2), rows).transpose(1, 2)
        near, squared = knn(xyz, samples, 3)
        inside, found = ball_query(xyz, samples, 1.0, 4, min_radius=0.1)
        groups = group_points(features, near).sum(-1) + group_points(features, inside).sum(-1)
        counts = count_points(nearest_sample(xyz, samples)[0], 8)
        corners, distances = knn(samples, xyz, 3)
        scaled = groups * (radii + found + counts + squared.sum(-1))[:, None]
        return interpolate(scaled, corners, 1 / (1 + distances))


SIZES = [(2, 40), (3, 61), (4, 50)]


def clouds(device: torch.device, batch: int, n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    xyz = torch.randn(batch, n, 3, generator=generator).to(device)
    return xyz, torch.randn(batch, 5, n, generator=generator).to(device)


def exported(device: torch.device) -> torch.export.ExportedProgram:
    batch, n = torch.export.Dim("batch", max=64), torch.export.Dim("n", min=8, max=4096)
    dims = ({0: batch, 1: n}, {0: batch, 2: n})
    return torch.export.export(Stage(), clouds(device, 2, 40), dynamic_shapes=dims)


def test_an_exported_program_takes_any_size_and_can_be_saved(
    device: torch.device, tmp_path: Path
) -> None:
    program = exported(device)
    torch.export.save(program, tmp_path / "stage.pt2")
    loaded = torch.export.load(tmp_path / "stage.pt2")
    for arguments in (clouds(device, *size) for size in [*SIZES, (1, 8)]):
        for module in (program.module(), loaded.module()):
            torch.testing.assert_close(module(*arguments), Stage()(*arguments))


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
    for arguments in (clouds(device, *size) for size in SIZES):
        torch.testing.assert_close(compiled(*arguments), Stage()(*arguments))


def test_wrong_tensors_are_errors_of_the_op() -> None:
    xyz, offsets, start = torch.rand(64, 3), torch.tensor([0, 12, 40, 64]), torch.arange(3)
    compiled = torch.compile(farthest_point_sample_ragged, fullgraph=True, backend="aot_eager")
    with pytest.raises(
        ValueError, match="num_samples: expected 1 to 12, the points of cloud 0, got 13"
    ):
        compiled(xyz, offsets, 13)
    with pytest.raises(ValueError, match="offsets: expected offsets from 0 to 64, got 0 to 65"):
        compiled(xyz, torch.tensor([0, 12, 65]), 3)
    with pytest.raises(IndexError, match="start: expected 0 <= start < 12 for cloud 0, got 20"):
        compiled(xyz, offsets, 3, start=start + 20)


@pytest.mark.parametrize("nonfinite", ["reject", "ignore"])
def test_points_that_are_not_finite_are_asserted_against(nonfinite: str) -> None:
    def sample(xyz: Tensor) -> Tensor:
        return farthest_point_sample(xyz, 4, nonfinite=nonfinite)

    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    cloud = torch.rand(1, 6, 3)
    assert torch.equal(compiled(cloud), sample(cloud))
    cloud[0, 3:] = torch.nan
    with pytest.raises(RuntimeError, match="see nonfinite"):
        compiled(cloud)
