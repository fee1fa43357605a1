"""The contract of every op: gradients, saved tensors, opcheck; examples of docs/autograd.md."""

import contextlib
import doctest
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.tensors import (
    DIFFERENTIABLE,
    WITHOUT_GRADIENT,
    Case,
    Make,
    few_are_quick,
    random,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from farpoint_ops import farthest_point_sample, gather_points

ops = torch.ops.farpoint
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inside torch


@pytest.fixture(params=DIFFERENTIABLE)
def case(request: pytest.FixtureRequest) -> Case:
    return DIFFERENTIABLE[request.param]


class Dispatched(TorchDispatchMode):
    """Names of the ops that reach a backend while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def tensors(arguments: tuple[Any, ...]) -> list[Tensor]:
    return [a for a in arguments if isinstance(a, Tensor)]


def gradients(case: Case, arguments: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Output and gradients of a weighted sum of it, for the arguments that require one."""
    out = case(*arguments)
    weight = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape).to(out.dtype)
    wanted = [a for a in tensors(arguments) if a.requires_grad]
    return out.detach(), *torch.autograd.grad(out, wanted, weight)


def assert_equal(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Equal but for the order of a sum, dtypes included."""
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e)


def test_every_op_is_here() -> None:
    here = {case.op.default.name() for case in DIFFERENTIABLE.values()}
    here |= {f"farpoint::{name}" for name in WITHOUT_GRADIENT}
    public = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("farpoint::")}
    # That of drop-ins is registered once one is imported: indices, without a rule for vmap.
    assert here == {n for n in public if not n.startswith("farpoint::_")} - {"farpoint::knn_ragged"}
    assert all(torch._C._dispatch_has_kernel_for_dispatch_key(n, "Autograd") for n in here)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_each_argument_that_requires_a_gradient_gets_one_like_itself(
    device: torch.device, case: Case, dtype: torch.dtype
) -> None:
    for wanted in case.subsets():
        arguments = case.with_gradients(Make(device, dtype), wanted)
        case(*arguments).sum().backward()
        for position, argument in enumerate(arguments):
            if position in wanted:
                assert argument.grad.shape == argument.shape
                assert argument.grad.dtype == argument.dtype == dtype
            elif isinstance(argument, Tensor):
                assert argument.grad is None


def test_no_graph_where_no_gradient_is_required(device: torch.device, case: Case) -> None:
    assert case(*case.arguments(Make(device))).grad_fn is None
    with torch.no_grad():
        assert case(*case.with_gradients(Make(device))).grad_fn is None


def test_a_node_is_named_after_its_op(device: torch.device, case: Case) -> None:
    """As anomaly mode shows it."""
    node = case(*case.with_gradients(Make(device))).grad_fn
    assert node is not None
    op = "".join(map(str.capitalize, case.op.__name__.split("_")))
    assert node.name() == f"torch::autograd::CppNode<farpoint::{op}Backward>"


# The older batching of torch.autograd has no rules for ops such as these.
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_first_and_second_derivative(device: torch.device, case: Case) -> None:
    for wanted in case.subsets():
        arguments = case.with_gradients(Make(device, torch.float64), wanted)
        every = len(wanted) == len(case.derivatives)
        torch.autograd.gradcheck(
            case,
            arguments,
            check_forward_ad=every,
            check_batched_grad=every,
            check_batched_forward_grad=every,
        )
        torch.autograd.gradgradcheck(
            case, arguments, check_fwd_over_rev=every, check_batched_grad=every
        )


def farpoint_work(out: Tensor, wanted: list[Tensor]) -> list[str]:
    """Our ops that a backward pass to `wanted` dispatches."""
    grad = torch.ones_like(out)
    with Dispatched() as dispatched:
        torch.autograd.grad(out, wanted, grad)
    return sorted(n.split(".")[1] for n in dispatched.names if n.startswith("farpoint."))


@pytest.mark.parametrize("all_want", [False, True])
def test_backward_does_no_work_for_gradients_that_are_not_asked_for(
    device: torch.device, case: Case, all_want: bool
) -> None:
    """Because the others require none, or because `grad` is asked for some."""
    for asked in case.subsets():
        arguments = case.with_gradients(Make(device), None if all_want else asked)
        work = farpoint_work(case(*arguments), [arguments[p] for p in asked])
        assert work == case.work(asked)


def test_only_what_backward_needs_is_kept(device: torch.device, case: Case) -> None:
    """By the bytes kept alive, and as the arguments themselves rather than copies of them."""
    for wanted in case.subsets():
        arguments = case.with_gradients(Make(device), wanted)
        kept: dict[int, int] = {}

        def keep(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs = case.outputs(*arguments)
        needed = [arguments[p] for w in wanted for p in case.derivatives[w].arguments]
        needed += [outputs[p] for w in wanted for p in case.derivatives[w].outputs]
        storages = [tensor.untyped_storage() for tensor in needed]
        assert kept == {s.data_ptr(): s.nbytes() for s in storages}


def test_what_is_kept_lives_from_forward_to_backward_and_the_rest_not_at_all(
    device: torch.device, case: Case
) -> None:
    """The output stays alive throughout, and no garbage collection is needed."""
    for wanted in case.subsets():
        leaves = case.with_gradients(Make(device), wanted)
        arguments = tuple(a * 1 if p in wanted else a for p, a in enumerate(leaves))
        outputs = case.outputs(*arguments)
        derivatives = [case.derivatives[w] for w in wanted]
        kept = {id(arguments[p]) for d in derivatives for p in d.arguments}
        kept |= {id(outputs[p]) for d in derivatives for p in d.outputs}
        watched = [*tensors(arguments), *outputs[1:]]
        references = [(weakref.ref(t), id(t) in kept) for t in watched]
        out = outputs[0]
        leaves = tuple(a for p, a in enumerate(leaves) if p in wanted)
        del arguments, outputs, watched
        assert [r() is not None for r, _ in references] == [k for _, k in references]
        out.sum().backward()
        assert all(r() is None for r, _ in references)


def test_a_saved_tensor_that_changed_is_noticed(device: torch.device, case: Case) -> None:
    for position, derivative in case.derivatives.items():
        for kept in set(derivative.arguments) - {position}:
            arguments = case.with_gradients(Make(device), (position,))
            out = case(*arguments)
            arguments[kept].zero_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()


def test_nothing_is_written_but_the_results(device: torch.device, case: Case) -> None:
    """Neither behind the version counters nor through them, in either pass."""
    arguments = case.with_gradients(Make(device))
    out = case(*arguments)
    grad = torch.randn_like(out).requires_grad_()
    watched = [*tensors(arguments), grad, out]
    before = [(t._version, t.detach().clone()) for t in watched]
    wanted = [arguments[p] for p in case.derivatives]
    first = torch.autograd.grad(out, wanted, grad, create_graph=True)
    torch.autograd.grad([g.square().sum() for g in first], grad)
    for tensor, (version, values) in zip(watched, before, strict=True):
        assert tensor._version == version
        assert torch.equal(tensor, values)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "expanded": lambda t: t[:1].expand_as(t),
    "part of a larger one": lambda t: torch.cat([t, t], -1)[..., : t.size(-1)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_gives_the_same(device: torch.device, case: Case, layout: str) -> None:
    """Of arguments, and of the incoming gradient."""

    def laid_out(contiguous: bool) -> tuple[Any, ...]:
        arguments = []
        for p, argument in enumerate(case.arguments(Make(device))):
            if isinstance(argument, Tensor):
                argument = LAYOUTS[layout](argument)
                argument = argument.contiguous() if contiguous else argument
                argument.requires_grad_(p in case.derivatives)
            arguments.append(argument)
        return tuple(arguments)

    assert_equal(gradients(case, laid_out(False)), gradients(case, laid_out(True)))
    arguments = case.with_gradients(Make(device))
    out = case(*arguments)
    grad = LAYOUTS[layout](torch.randn_like(out))
    wanted = [arguments[p] for p in case.derivatives]
    actual = torch.autograd.grad(out, wanted, grad, retain_graph=True)
    assert_equal(actual, torch.autograd.grad(out, wanted, grad.contiguous()))


@pytest.mark.parametrize("empty", ["b", "c", "m"])
def test_empty_inputs_have_empty_gradients(device: torch.device, case: Case, empty: str) -> None:
    arguments = case.with_gradients(Make(device, **{empty: 0}))
    out, *grads = gradients(case, arguments)
    for position, grad in zip(case.derivatives, grads, strict=True):
        assert grad.shape == arguments[position].shape
        assert out.numel() > 0 or not grad.any()


@few_are_quick
def test_compiled_autograd(device: torch.device, case: Case) -> None:
    torch._dynamo.reset()
    expected = gradients(case, case.with_gradients(Make(device)))
    compiler = torch.compile(fullgraph=True, backend="aot_eager")
    with torch._dynamo.compiled_autograd._enable(compiler):
        actual = gradients(case, case.with_gradients(Make(device)))
    assert_equal(actual, expected)


@contextlib.contextmanager
def deterministic_algorithms() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_repeated_indices_are_summed_in_one_order(device: torch.device) -> None:
    """Rounding depends on the order: with magnitudes this far apart, another order shows."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, 3, 20_000, generator=generator).exp()
    idx = torch.randint(5, (2, 20_000), generator=generator)
    expected = ops.scatter_points(values, idx, 5)
    with deterministic_algorithms():
        results = [ops.scatter_points(values.to(device), idx.to(device), 5) for _ in range(5)]
    assert all(torch.equal(result.cpu(), expected) for result in results)


def test_sampling_stops_the_gradient_of_a_chain(device: torch.device) -> None:
    """Coordinates made by a layer train through the gather, as if the indices were constants."""
    x = Make(device)
    layer, cloud = torch.nn.Linear(3, 3).to(device), x.values(2, 30, 3)

    def loss(idx: Tensor | None, radii: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        moved = layer(cloud)
        if idx is None or radii is None:
            idx, radii = farthest_point_sample(moved, 7, return_distances=True)
        picked = gather_points(moved.transpose(1, 2), idx)
        return (picked.square() * radii[:, None]).sum(), idx, radii

    total, idx, radii = loss(None, None)
    actual = torch.autograd.grad(total, layer.parameters())
    constant, _, _ = loss(idx.clone(), radii.clone())
    assert_equal(actual, torch.autograd.grad(constant, layer.parameters()))
    assert all(g.abs().sum() > 0 for g in actual)


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "autograd.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return found


def test_the_python_runs_as_a_doctest() -> None:
    torch.manual_seed(0)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks("python")), {}, PAGE.name, None, 0)
    assert page.examples
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(page, out=report.append)
    assert not failed, "".join(report)


def test_the_cpp_is_in_the_sources() -> None:
    sources = [path.read_text() for path in (ROOT / "csrc").rglob("*") if path.is_file()]
    for block in blocks("cpp"):
        assert any(block in source for source in sources), block


def test_the_files_it_names_exist() -> None:
    named = re.findall(r"`((?:csrc|server|tests)/[\w./]+)`", PAGE.read_text())
    assert len(named) > 5
    assert all((ROOT / name).exists() for name in named)


def int64(device: torch.device, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


# Every optional argument; how each alone is compiled and exported is in test_options.py.
SAMPLES: dict[str, Callable[[torch.device], tuple[str, Any]]] = {
    "fps with everything": lambda d: (
        "furthest_point_sample",
        (random(d, 2, 20, 3), 9, int64(d, 1, 2), int64(d, 20, 9), True, 0.5 * random(d, 2).abs()),
    ),
    "ragged with everything": lambda d: (
        "furthest_point_sample_ragged",
        (
            *(random(d, 20, 2), int64(d, 0, 8, 20), int64(d, 0, 8, 20), int64(d, 3, 4)),
            *(20, 12, 12, False, random(d, 2).abs()),
        ),
    ),
}


@pytest.mark.parametrize("name", [*SAMPLES, *DIFFERENTIABLE, *WITHOUT_GRADIENT])
def test_opcheck(device: torch.device, name: str) -> None:
    if name in DIFFERENTIABLE:
        case = DIFFERENTIABLE[name]
        torch.library.opcheck(case.op, case.with_gradients(Make(device, torch.float64)))
        return
    op, arguments = (
        SAMPLES[name](device) if name in SAMPLES else (name, WITHOUT_GRADIENT[name](Make(device)))
    )
    torch.library.opcheck(getattr(ops, op), arguments)


def test_every_op_declares_itself_compilable() -> None:
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("farpoint::")}
    public = [n.removeprefix("farpoint::") for n in names if not n.startswith("farpoint::_")]
    assert all(torch.Tag.pt2_compliant_tag in getattr(ops, n).default.tags for n in public)
