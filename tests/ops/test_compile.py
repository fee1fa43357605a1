"""opcheck, torch.compile, torch.export and AOTInductor: no graph break, no value read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.differentiable import DIFFERENTIABLE, WITHOUT_GRADIENT, Make
from tests.support.tensors import assert_same, random
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
from farpoint_ops.compat import pointops


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_stage_compiles_without_a_graph_break(device: torch.device, dynamic: bool) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(Stage(), fullgraph=True, dynamic=dynamic, backend=counter)
    for xyz, features in (clouds(device, *size) for size in SIZES):
        features.requires_grad_()
        expected, actual = Stage()(xyz, features), compiled(xyz, features)
        torch.testing.assert_close(actual, expected)
        gradients = [torch.autograd.grad(o.square().sum(), features) for o in (actual, expected)]
        torch.testing.assert_close(*gradients)
    assert counter.frame_count == (1 if dynamic else len(SIZES))


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


def test_starts_lengths_and_offsets_in_lists(device: torch.device) -> None:
    def sample(xyz: Tensor, start: Tensor, offsets: Tensor) -> tuple[Tensor, ...]:
        flat = xyz.flatten(0, 1)
        return (
            farthest_point_sample(xyz, 6, start=start, lengths=[20, 9]),
            farthest_point_sample_ragged(flat, [0, 12, 40], [3, 4], start=1),
            farthest_point_sample_ragged(flat, offsets, [3, 4], start=2),
        )

    arguments = clouds(device, 2, 20)[0], int64(device, 1, 2), int64(device, 0, 12, 40)
    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    assert_same(compiled(*arguments), sample(*arguments))


def batches(device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Flat clouds, offsets and starts of three batches whose sizes all differ."""
    generator = torch.Generator().manual_seed(0)
    for sizes in ([12, 28, 7, 9, 8], [30, 9, 21, 8, 7, 11], [8, 9, 10, 60]):
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        xyz = torch.randn(int(offsets[-1]), 3, generator=generator)
        yield xyz.to(device), offsets.to(device), torch.arange(len(sizes)).to(device)


def test_tensor_offsets(device: torch.device) -> None:
    def sample(xyz: Tensor, offsets: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        rows, radii = farthest_point_sample_ragged(xyz, offsets, 5, return_distances=True)
        return rows, radii, farthest_point_sample_ragged(xyz, offsets, 7, start=start)

    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(sample, fullgraph=True, dynamic=True, backend=counter)
    for arguments in batches(device):
        assert_same(compiled(*arguments), sample(*arguments))
    assert counter.frame_count == 1


def test_samples_in_a_tensor_where_scalars_are_captured(device: torch.device) -> None:
    def sample(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
        return pointops.furthestsampling(xyz, offset, new_offset)

    compiled = torch.compile(sample, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for xyz, offsets, start in batches(device):
            arguments = xyz, offsets[1:].int(), (start + 2).cumsum(0).int()
            assert torch.equal(compiled(*arguments), sample(*arguments))


def test_pointops_knn_query(device: torch.device) -> None:
    def search(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> tuple[Tensor, ...]:
        near = pointops.knn_query(11, xyz, offset)
        queries = xyz[: xyz.size(0) // 2] * 0.9
        return *near, *pointops.knn_query(3, xyz, offset, queries, new_offset)

    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(search, fullgraph=True, dynamic=True, backend=counter)
    frames = []
    for xyz, offsets, start in batches(device):
        new_offset = (start + 1).clamp(max=3)
        new_offset[-1] = len(xyz) // 2
        arguments = xyz, offsets[1:].int(), new_offset
        assert_same(compiled(*arguments), search(*arguments))
        frames.append(counter.frame_count)
    assert frames[0] == frames[-1]


def test_wrong_tensors_are_errors_of_the_op() -> None:
    xyz, offsets, start = next(batches(torch.device("cpu")))
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
        return farthest_point_sample(xyz, 4, nonfinite=nonfinite)  # type: ignore[call-overload]

    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    cloud = torch.rand(1, 6, 3)
    assert torch.equal(compiled(cloud), sample(cloud))
    cloud[0, 3:] = torch.nan
    with pytest.raises(RuntimeError, match="see nonfinite"):
        compiled(cloud)


ops = torch.ops.farpoint


def int64(device: torch.device, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


# Beyond those of `differentiable`: optional arguments and other numbers of dimensions.
SAMPLES: dict[str, Callable[[torch.device], tuple[str, Any]]] = {
    "fps of one point": lambda d: ("furthest_point_sample", (random(d, 1, 1, 3), 1)),
    "fps with everything": lambda d: (
        "furthest_point_sample",
        (random(d, 2, 20, 3), 9, int64(d, 1, 2), int64(d, 20, 9), True, 0.5 * random(d, 2).abs()),
    ),
    "fps in 5 dimensions": lambda d: (
        "furthest_point_sample",
        (random(d, 2, 20, 5).double().requires_grad_(), 5, None, None, True),
    ),
    "ragged with everything": lambda d: (
        "furthest_point_sample_ragged",
        (
            *(random(d, 20, 2), int64(d, 0, 8, 20), int64(d, 0, 8, 20), int64(d, 3, 4)),
            *(20, 12, 12, False, random(d, 2).abs()),
        ),
    ),
    "fps by distances": lambda d: (
        "furthest_point_sample_with_distances",
        (random(d, 2, 9, 9).abs().requires_grad_(), 5, int64(d, 1, 2), int64(d, 9, 7), True),
    ),
    "gather from an empty batch": lambda d: (
        "gather_points",
        (random(d, 0, 4, 9).requires_grad_(), torch.zeros(0, 3, dtype=torch.int32, device=d)),
    ),
    "knn of more than there are": lambda d: (
        "knn",
        (random(d, 2, 5, 3).requires_grad_(), random(d, 2, 4, 3).requires_grad_(), 7),
    ),
    "knn with lengths": lambda d: (
        "knn",
        (random(d, 2, 9, 3).requires_grad_(), random(d, 2, 4, 3), 3, int64(d, 9, 4)),
    ),
    "shell in float64": lambda d: (
        "ball_query",
        (random(d, 2, 9, 3).double(), random(d, 2, 4, 3).double(), 2.0, 3, int64(d, 9, 4), 1.0),
    ),
    "nearest sample with lengths": lambda d: (
        "nearest_sample",
        (random(d, 2, 9, 3).requires_grad_(), random(d, 2, 4, 3), int64(d, 9, 0), int64(d, 1, 4)),
    ),
}


@pytest.mark.parametrize("name", [*SAMPLES, *DIFFERENTIABLE, *WITHOUT_GRADIENT])
def test_opcheck(device: torch.device, name: str) -> None:
    if name in DIFFERENTIABLE:
        case = DIFFERENTIABLE[name]
        torch.library.opcheck(case.op, case.with_gradients(Make(device)))
        return
    op, arguments = (
        SAMPLES[name](device) if name in SAMPLES else (name, WITHOUT_GRADIENT[name](Make(device)))
    )
    torch.library.opcheck(getattr(ops, op), arguments)


def test_every_op_declares_itself_compilable() -> None:
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("farpoint::")}
    public = [n.removeprefix("farpoint::") for n in names if not n.startswith("farpoint::_")]
    assert all(torch.Tag.pt2_compliant_tag in getattr(ops, n).default.tags for n in public)


def test_meta_tensors_have_shapes_and_dtypes() -> None:
    meta = torch.device("meta")
    idx, radii = ops.furthest_point_sample(torch.empty(2, 9, 3, device=meta), 4, None, None, True)
    assert idx.dtype == torch.int32
    assert radii.dtype == torch.float32
    assert idx.shape == radii.shape == (2, 4)
    features = torch.empty(2, 5, 9, device=meta, dtype=torch.float16)
    assert gather_points(features, idx).shape == (2, 5, 4)
    assert gather_points(features, idx).dtype == torch.float16


def test_inference_mode(device: torch.device) -> None:
    xyz = random(device, 1, 30, 3)
    expected = farthest_point_sample(xyz, 5)
    with torch.inference_mode():
        assert torch.equal(farthest_point_sample(xyz, 5), expected)
        assert gather_points(xyz.transpose(1, 2), expected).shape == (1, 3, 5)
