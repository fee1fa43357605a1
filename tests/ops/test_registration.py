"""Registration of the ops: schemas, fakes, opcheck, torch.compile, autocast, autograd keys."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

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

ops = torch.ops.farpoint
Arguments = tuple[Any, ...]


def clouds(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)


def int64(device: torch.device, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


SAMPLES: dict[str, Callable[[torch.device], tuple[Any, Arguments]]] = {
    "fps": lambda d: (ops.furthest_point_sample, (clouds(d, 2, 20, 3), 5)),
    "fps of every point": lambda d: (ops.furthest_point_sample, (clouds(d, 2, 6, 3), 6)),
    "fps of one point": lambda d: (ops.furthest_point_sample, (clouds(d, 1, 1, 3), 1)),
    "fps with everything": lambda d: (
        ops.furthest_point_sample,
        (clouds(d, 2, 20, 3), 5, int64(d, 1, 2), int64(d, 20, 7), True),
    ),
    "fps with a gradient": lambda d: (
        ops.furthest_point_sample,
        (clouds(d, 2, 20, 3).requires_grad_(), 5, None, None, True),
    ),
    "ragged": lambda d: (
        ops.furthest_point_sample_ragged,
        (clouds(d, 20, 3), int64(d, 0, 8, 20), int64(d, 0, 2, 5), None, 5, 12, 3),
    ),
    "ragged with everything": lambda d: (
        ops.furthest_point_sample_ragged,
        (
            clouds(d, 20, 3).requires_grad_(),
            *(int64(d, 0, 8, 20), int64(d, 0, 8, 20), int64(d, 3, 4)),
            *(20, 12, 12, True),
        ),
    ),
    "fps in 5 dimensions": lambda d: (
        ops.furthest_point_sample,
        (clouds(d, 2, 20, 5).double().requires_grad_(), 5, None, None, True),
    ),
    "ragged in 2 dimensions": lambda d: (
        ops.furthest_point_sample_ragged,
        (clouds(d, 20, 2), int64(d, 0, 8, 20), int64(d, 0, 2, 5), None, 5, 12, 3, True),
    ),
    "fps by distances": lambda d: (
        ops.furthest_point_sample_with_distances,
        (clouds(d, 2, 9, 9).abs().requires_grad_(), 5, int64(d, 1, 2), int64(d, 9, 7), True),
    ),
    "gather": lambda d: (
        ops.gather_points,
        (clouds(d, 2, 4, 9).requires_grad_(), int64(d, 0, 8, 8).expand(2, 3)),
    ),
    "gather of every point": lambda d: (
        ops.gather_points,
        (clouds(d, 1, 4, 3).requires_grad_(), int64(d, 0, 1, 2)[None]),
    ),
    "gather from an empty batch": lambda d: (
        ops.gather_points,
        (clouds(d, 0, 4, 9).requires_grad_(), torch.zeros(0, 3, dtype=torch.int32, device=d)),
    ),
    "scatter": lambda d: (
        ops.scatter_points,
        (clouds(d, 2, 4, 3).requires_grad_(), int64(d, 0, 6, 6).expand(2, 3), 7),
    ),
    "group": lambda d: (
        ops.group_points,
        (clouds(d, 2, 4, 9).requires_grad_(), int64(d, 0, 8, 8).expand(2, 5, 3)),
    ),
    "knn of every point": lambda d: (
        ops.knn,
        (clouds(d, 2, 5, 3).requires_grad_(), clouds(d, 2, 4, 3).requires_grad_(), 5),
    ),
    "knn with lengths": lambda d: (
        ops.knn,
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), 3, int64(d, 9, 4)),
    ),
    "knn of more than there are": lambda d: (
        ops.knn,
        (clouds(d, 2, 5, 3).requires_grad_(), clouds(d, 2, 4, 3).requires_grad_(), 7),
    ),
    "ragged knn": lambda d: (
        ops.knn_ragged,
        (clouds(d, 9, 3), clouds(d, 4, 3), 3, int64(d, 0, 2, 9), int64(d, 0, 4, 4)),
    ),
    "fps to a radius": lambda d: (
        ops.furthest_point_sample,
        (clouds(d, 2, 20, 3), 9, None, None, True, torch.tensor([1.0, 0.0], device=d)),
    ),
    "ragged to a radius": lambda d: (
        ops.furthest_point_sample_ragged,
        (
            *(clouds(d, 20, 3), int64(d, 0, 8, 20), int64(d, 0, 8, 20), None, 20, 12, 12, False),
            torch.tensor([1.0, 0.5], device=d),
        ),
    ),
    "shell": lambda d: (
        ops.ball_query,
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), 2.0, 3, None, 1.0),
    ),
    "nothing to be nearest to": lambda d: (
        ops.nearest_sample,
        (clouds(d, 2, 9, 3), clouds(d, 2, 0, 3)),
    ),
    "ball query": lambda d: (
        ops.ball_query,
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), 0.9, 3, int64(d, 9, 4)),
    ),
    "ball query in float64": lambda d: (
        ops.ball_query,
        (clouds(d, 2, 9, 3).double().requires_grad_(), clouds(d, 2, 4, 3).double(), 0.9, 3),
    ),
    "nearest sample in float64": lambda d: (
        ops.nearest_sample,
        (clouds(d, 2, 9, 3).double().requires_grad_(), clouds(d, 2, 4, 3).double()),
    ),
    "nearest sample": lambda d: (
        ops.nearest_sample,
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), int64(d, 9, 0), int64(d, 1, 4)),
    ),
    "count": lambda d: (ops.count_points, (int64(d, -1, 0, 6, 6)[None], 7)),
    "interpolate": lambda d: (
        ops.interpolate,
        (
            clouds(d, 2, 4, 9).requires_grad_(),
            int64(d, 0, 8, 8).expand(2, 5, 3),
            clouds(d, 2, 5, 3).requires_grad_(),
        ),
    ),
    "interpolate_scatter": lambda d: (
        ops.interpolate_scatter,
        (clouds(d, 2, 4, 5), int64(d, 0, 8, 8).expand(2, 5, 3), clouds(d, 2, 5, 3), 9),
    ),
    "interpolate_dot": lambda d: (
        ops.interpolate_dot,
        (clouds(d, 2, 4, 5), clouds(d, 2, 4, 9), int64(d, 0, 8, 8).expand(2, 5, 3)),
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(device: torch.device, name: str) -> None:
    op, arguments = SAMPLES[name](device)
    torch.library.opcheck(op, arguments)


def test_every_op_is_checked_and_declares_itself_compilable(device: torch.device) -> None:
    checked = {make(device)[0].default for make in SAMPLES.values()}
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("farpoint::")}
    assert {op.name() for op in checked} == {n for n in names if not n.startswith("farpoint::_")}
    assert all(torch.Tag.pt2_compliant_tag in op.tags for op in checked)


def pipeline(xyz: Tensor, features: Tensor, m: int) -> Tensor:
    """A stage down and up again: samples, their neighbors and sets, the features of all points."""
    idx, radii = farthest_point_sample(xyz, m, return_distances=True)
    samples = gather_points(xyz.transpose(1, 2), idx).transpose(1, 2)
    near, squared = knn(xyz, samples, 3)
    inside, found = ball_query(xyz, samples, 1.0, 2)
    groups = group_points(features, near).sum(-1) + group_points(features, inside).sum(-1)
    counts = count_points(nearest_sample(xyz, samples)[0], m)
    scale = radii + found + counts + squared.sum(-1)
    corners, distances = knn(samples, xyz, 3)
    return interpolate(groups * scale[:, None], corners, 1 / (1 + distances))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_without_a_graph_break(device: torch.device, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(pipeline, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for batch, n, m in ((2, 40, 6), (3, 50, 9)):
        xyz, features = clouds(device, batch, n, 3), clouds(device, batch, 4, n)
        plain, traced = (features.clone().requires_grad_() for _ in range(2))
        expected, actual = pipeline(xyz, plain, m), compiled(xyz, traced, m)
        torch.testing.assert_close(actual, expected)
        expected.square().sum().backward()
        actual.square().sum().backward()
        torch.testing.assert_close(traced.grad, plain.grad)


def test_dynamic_shapes_compile_once(device: torch.device) -> None:
    torch._dynamo.reset()
    from torch._dynamo.testing import CompileCounter  # seconds to import

    counter = CompileCounter()
    compiled = torch.compile(pipeline, fullgraph=True, dynamic=True, backend=counter)
    for batch, n, m in ((2, 40, 6), (3, 50, 9), (4, 61, 7)):
        compiled(clouds(device, batch, n, 3), clouds(device, batch, 4, n), m)
    assert counter.frame_count == 1


def test_starts_lengths_and_ragged_compile(device: torch.device) -> None:
    def sample(xyz: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        flat = farthest_point_sample_ragged(xyz.flatten(0, 1), [0, 12, 40], [3, 4], start=1)
        return farthest_point_sample(xyz, 6, start=start, lengths=[20, 9]), flat

    torch._dynamo.reset()
    arguments = clouds(device, 2, 20, 3), int64(device, 1, 2)
    compiled = torch.compile(sample, fullgraph=True, backend="aot_eager")
    for actual, expected in zip(compiled(*arguments), sample(*arguments), strict=True):
        assert torch.equal(actual, expected)


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
    xyz = clouds(device, 1, 30, 3)
    expected = farthest_point_sample(xyz, 5)
    with torch.inference_mode():
        assert torch.equal(farthest_point_sample(xyz, 5), expected)
        assert gather_points(xyz.transpose(1, 2), expected).shape == (1, 3, 5)
