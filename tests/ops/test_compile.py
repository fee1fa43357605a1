"""torch.compile, torch.export, AOTInductor and ONNX: no graph break, no value read."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farpoint_ops
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
from farpoint_ops.onnx import decompositions


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
        # On a GPU they are sums of atomics, in any order.
        rtol = 1e-5 if device.type == "cpu" else 1e-4
        torch.testing.assert_close(*gradients, rtol=rtol, atol=1e-5)
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
        return farthest_point_sample(xyz, 4, nonfinite=nonfinite)  # type: ignore[call-overload]

    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    cloud = torch.rand(1, 6, 3)
    assert torch.equal(compiled(cloud), sample(cloud))
    cloud[0, 3:] = torch.nan
    with pytest.raises(RuntimeError, match="see nonfinite"):
        compiled(cloud)


# torch warns of itself while it copies a program.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
FREE = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},) * 2


class Model(nn.Module):
    """Every op of the table."""

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, ...]:
        rows, distances = farpoint_ops.farthest_point_sample(xyz, 6, start=1, return_distances=True)
        centers = farpoint_ops.gather_points(xyz.mT.contiguous(), rows).mT.contiguous()
        near, squared = farpoint_ops.knn(xyz, centers, 4)
        inside, counts = farpoint_ops.ball_query(xyz, centers, 0.4, 5, min_radius=0.1)
        sample, _ = farpoint_ops.nearest_sample(xyz, centers)
        channels = features.mT.contiguous()
        pooled = farpoint_ops.group_points(channels, inside).amax(-1)
        back, back_squared = farpoint_ops.knn(centers, xyz, 3)
        spread = farpoint_ops.interpolate(pooled, back, torch.softmax(-back_squared, -1))
        sizes = farpoint_ops.count_points(sample, 6)
        return rows, distances, near, squared, inside, counts, sample, sizes, spread


def inputs(clouds: int, points: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(points)
    xyz = torch.rand(clouds, points, 3, generator=generator)
    return xyz, torch.rand(clouds, points, 2, generator=generator)


def decomposed(shapes: object) -> torch.export.ExportedProgram:
    program = torch.export.export(Model(), inputs(2, 60), dynamic_shapes=shapes)
    return program.run_decompositions(decompositions())


def check(got, expected):
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("shapes", [None, FREE], ids=["fixed", "free"])
def test_a_decomposed_program_has_no_op_of_ours_and_their_answers(shapes):
    program = decomposed(shapes)
    assert "farpoint" not in str(program.graph)
    for given in [inputs(2, 60)] + [inputs(3, 91)] * (shapes is not None):
        check(program.module()(*given), Model()(*given))


def test_coincident_points_are_sampled_once_each():
    xyz = torch.zeros(1, 5, 3)
    table = decompositions()
    rows, _ = table[torch.ops.farpoint.furthest_point_sample.default](xyz, 5)
    assert sorted(rows[0].tolist()) == [0, 1, 2, 3, 4]


def test_what_the_table_does_not_have_is_named():
    table = decompositions()
    xyz, _ = inputs(1, 9)
    op = torch.ops.farpoint
    for named, call in {
        "lengths": lambda: table[op.knn.default](xyz, xyz, 2, torch.tensor([5])),
        "k": lambda: table[op.knn.default](xyz, xyz, 10),
        "radius": lambda: table[op.furthest_point_sample.default](xyz, 2, radius=torch.ones(1)),
    }.items():
        with pytest.raises(NotImplementedError, match=f"^{named}: expected None"):
            call()


def test_onnxruntime_has_the_answers_of_the_ops():
    pytest.importorskip("onnxscript", reason="torch.onnx needs it")
    runtime = pytest.importorskip("onnxruntime", reason="it runs the graph")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.onnx.export(decomposed(FREE), dynamo=True, verbose=False).model_proto
    session = runtime.InferenceSession(model.SerializeToString())
    given = inputs(3, 91)
    names = [each.name for each in session.get_inputs()]
    got = session.run(None, {name: t.numpy() for name, t in zip(names, given, strict=True)})
    check(map(torch.from_numpy, got), Model()(*given))
