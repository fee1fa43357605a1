"""torch.func, forward mode and batched gradients of every op: the contract of docs/autograd.md."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.support.tensors import DIFFERENTIABLE, WITHOUT_GRADIENT, Case, Make, few_are_quick
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from farpoint_ops import farthest_point_sample, gather_points, group_points, knn

ops = torch.ops.farpoint
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # inside torch
    # The older batching of torch.autograd has no rules for ops such as these.
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


@pytest.fixture(params=DIFFERENTIABLE)
def case(request: pytest.FixtureRequest) -> Case:
    return DIFFERENTIABLE[request.param]


def split(case: Case, arguments: tuple[Any, ...]) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """The op as a function of its differentiable arguments, and those."""
    positions = list(case.derivatives)

    def function(*moving: Tensor) -> Tensor:
        given = list(arguments)
        for position, value in zip(positions, moving, strict=True):
            given[position] = value
        return case(*given)

    return function, [arguments[p] for p in positions]


def scalar(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A loss whose second derivative is not zero."""
    return lambda *moving: function(*moving).square().sum()


def assert_close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected)


def test_hessians(device: torch.device, case: Case) -> None:
    """Forward over reverse, reverse over forward, reverse over reverse, forward over forward."""
    function, moving = split(case, case.arguments(Make(device, torch.float64, b=1, c=2, n=4, m=3)))
    loss, every = scalar(function), tuple(range(len(moving)))
    expected = torch.autograd.functional.hessian(loss, tuple(moving))
    assert_close(hessian(loss, every)(*moving), expected)
    for outer in (jacrev, jacfwd):
        for inner in (jacrev, jacfwd):
            assert_close(outer(inner(loss, every), every)(*moving), expected)


def samples(case: Case, device: torch.device, count: int) -> list[tuple[Any, ...]]:
    """Arguments of the op, each of them drawn anew."""
    make = Make(device, torch.float64)
    return [case.arguments(make) for _ in range(count)]


def stacked(arguments: list[tuple[Any, ...]], dims: list[int | None]) -> list[Any]:
    columns = zip(*arguments, strict=True)
    return [
        column[0] if dim is None else torch.stack(column, dim)
        for column, dim in zip(columns, dims, strict=True)
    ]


def mapped_dims(arguments: tuple[Any, ...], dim: int) -> list[int | None]:
    return [dim if isinstance(a, Tensor) else None for a in arguments]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_vmap_is_a_loop(device: torch.device, case: Case, dim: int) -> None:
    each = samples(case, device, 3)
    dims = mapped_dims(each[0], dim)
    expected = torch.stack([case(*arguments) for arguments in each])
    assert_close(vmap(case.__call__, tuple(dims))(*stacked(each, dims)), expected)


def test_vmap_of_grad_is_a_gradient_for_each_sample(device: torch.device, case: Case) -> None:
    each = samples(case, device, 3)
    dims = mapped_dims(each[0], 0)

    def gradients(*arguments: Any) -> tuple[Tensor, ...]:
        function, moving = split(case, arguments)
        return grad(scalar(function), tuple(range(len(moving))))(*moving)

    expected = [torch.stack(g) for g in zip(*(gradients(*a) for a in each), strict=True)]
    actual = vmap(gradients, tuple(dims))(*stacked(each, dims))
    assert_close(list(actual), expected)


@few_are_quick
def test_a_transform_in_a_compiled_graph(device: torch.device, case: Case) -> None:
    torch._dynamo.reset()
    function, moving = split(case, case.arguments(Make(device)))
    gradients = grad(scalar(function), tuple(range(len(moving))))
    compiled = torch.compile(gradients, fullgraph=True, backend="aot_eager")
    assert_close(compiled(*moving), gradients(*moving))


def test_gradients_off_around_a_transform_and_in_it(device: torch.device, case: Case) -> None:
    """`grad` under no_grad works; no_grad within it stops the gradient: as for torch's ops."""
    function, moving = split(case, case.arguments(Make(device)))
    every = tuple(range(len(moving)))
    expected = grad(scalar(function), every)(*moving)
    with torch.no_grad():
        assert_close(grad(scalar(function), every)(*moving), expected)

    def stopped(*inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return scalar(function)(*inputs)

    assert all(not g.any() for g in grad(stopped, every)(*moving))


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_vmap_of_what_has_no_gradient(device: torch.device, name: str) -> None:
    op, make = getattr(ops, name), Make(device)
    each = [WITHOUT_GRADIENT[name](make) for _ in range(3)]
    for dims in (mapped_dims(each[0], 0), [0, *[None] * (len(each[0]) - 1)]):
        arguments = stacked(each, dims)
        loop = [
            op(*(a if d is None else a[v] for a, d in zip(arguments, dims, strict=True)))
            for v in range(3)
        ]
        actual = vmap(op, tuple(dims))(*arguments)
        if isinstance(actual, Tensor):
            assert torch.equal(actual, torch.stack(loop))
            continue
        for a, e in zip(actual, zip(*loop, strict=True), strict=True):
            assert torch.equal(a, torch.stack(e))


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_indices_counts_and_sampling_distances_have_no_gradient_and_no_tangent(
    device: torch.device, name: str
) -> None:
    arguments = WITHOUT_GRADIENT[name](Make(device))
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(a.requires_grad_(), torch.ones_like(a))
            if isinstance(a, Tensor) and a.is_floating_point()
            else a
            for a in arguments
        ]
        outputs = getattr(ops, name)(*duals)
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            assert not output.requires_grad
            assert forward_ad.unpack_dual(output).tangent is None


def stage(xyz: Tensor) -> Tensor:
    """Samples of clouds (B, N, 3), not detached, and features of their neighbors."""
    rows, radii = farthest_point_sample(xyz, 4, return_distances=True)
    points = xyz.transpose(1, 2)
    picked = gather_points(points, rows)
    near, squared = knn(xyz, picked.transpose(1, 2), 3)
    groups = group_points(points, near)
    return (groups.square().sum(1) * squared).sum((1, 2)) * radii[:, -1]


def test_transforms_pass_over_sampling(device: torch.device) -> None:
    # In float32 a direction at random cancels so much of the sum below, once in 60 times, that its
    # rounding is beyond the tolerance.
    clouds = Make(device, torch.float64).values(3, 2, 20, 3)

    def loss(cloud: Tensor) -> Tensor:
        return stage(cloud).sum()

    expected = []
    for cloud in clouds:
        leaf = cloud.clone().requires_grad_()
        expected.append(torch.autograd.grad(loss(leaf), leaf)[0])
    assert_close(vmap(grad(loss))(clouds), torch.stack(expected))
    direction = torch.randn_like(clouds[0])
    _, tangent = jvp(loss, (clouds[0],), (direction,))
    assert_close(tangent, (expected[0] * direction).sum())
    assert_close(jacfwd(loss)(clouds[0]), expected[0])
    assert_close(jacrev(loss)(clouds[0]), expected[0])
    second = hessian(loss)(clouds[0])
    assert_close(second, jacfwd(jacfwd(loss))(clouds[0]))
    assert second.any()
