"""Registration of the ops: schemas, fakes, opcheck, meta tensors, inference mode."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.support.differentiable import DIFFERENTIABLE, WITHOUT_GRADIENT, Make
from torch import Tensor

from farpoint_ops import farthest_point_sample, gather_points

ops = torch.ops.farpoint


def clouds(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)


def int64(device: torch.device, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


# Beyond those of `differentiable`: optional arguments and other numbers of dimensions.
SAMPLES: dict[str, Callable[[torch.device], tuple[str, Any]]] = {
    "fps of one point": lambda d: ("furthest_point_sample", (clouds(d, 1, 1, 3), 1)),
    "fps with everything": lambda d: (
        "furthest_point_sample",
        (clouds(d, 2, 20, 3), 9, int64(d, 1, 2), int64(d, 20, 9), True, 0.5 * clouds(d, 2).abs()),
    ),
    "fps in 5 dimensions": lambda d: (
        "furthest_point_sample",
        (clouds(d, 2, 20, 5).double().requires_grad_(), 5, None, None, True),
    ),
    "ragged with everything": lambda d: (
        "furthest_point_sample_ragged",
        (
            *(clouds(d, 20, 2), int64(d, 0, 8, 20), int64(d, 0, 8, 20), int64(d, 3, 4)),
            *(20, 12, 12, False, clouds(d, 2).abs()),
        ),
    ),
    "fps by distances": lambda d: (
        "furthest_point_sample_with_distances",
        (clouds(d, 2, 9, 9).abs().requires_grad_(), 5, int64(d, 1, 2), int64(d, 9, 7), True),
    ),
    "gather from an empty batch": lambda d: (
        "gather_points",
        (clouds(d, 0, 4, 9).requires_grad_(), torch.zeros(0, 3, dtype=torch.int32, device=d)),
    ),
    "knn of more than there are": lambda d: (
        "knn",
        (clouds(d, 2, 5, 3).requires_grad_(), clouds(d, 2, 4, 3).requires_grad_(), 7),
    ),
    "knn with lengths": lambda d: (
        "knn",
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), 3, int64(d, 9, 4)),
    ),
    "shell in float64": lambda d: (
        "ball_query",
        (clouds(d, 2, 9, 3).double(), clouds(d, 2, 4, 3).double(), 2.0, 3, int64(d, 9, 4), 1.0),
    ),
    "nearest sample with lengths": lambda d: (
        "nearest_sample",
        (clouds(d, 2, 9, 3).requires_grad_(), clouds(d, 2, 4, 3), int64(d, 9, 0), int64(d, 1, 4)),
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
    xyz = clouds(device, 1, 30, 3)
    expected = farthest_point_sample(xyz, 5)
    with torch.inference_mode():
        assert torch.equal(farthest_point_sample(xyz, 5), expected)
        assert gather_points(xyz.transpose(1, 2), expected).shape == (1, 3, 5)
