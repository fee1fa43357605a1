"""The ops in operators that ONNX has: the same answers, with fixed and with free sizes."""

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import farpoint_ops
from farpoint_ops.onnx import decompositions

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


def exported(shapes: object) -> torch.export.ExportedProgram:
    program = torch.export.export(Model(), inputs(2, 60), dynamic_shapes=shapes)
    return program.run_decompositions(decompositions())


def check(got, expected):
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("shapes", [None, FREE], ids=["fixed", "free"])
def test_a_decomposed_program_has_no_op_of_ours_and_their_answers(shapes):
    program = exported(shapes)
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
        model = torch.onnx.export(exported(FREE), dynamo=True, verbose=False).model_proto
    session = runtime.InferenceSession(model.SerializeToString())
    given = inputs(3, 91)
    names = [each.name for each in session.get_inputs()]
    got = session.run(None, {name: t.numpy() for name, t in zip(names, given, strict=True)})
    check(map(torch.from_numpy, got), Model()(*given))
