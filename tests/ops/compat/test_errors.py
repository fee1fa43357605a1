"""Every error of a drop-in names an argument of its own, what was expected and what arrived."""

import re
from collections.abc import Callable
from inspect import isfunction, signature
from types import FunctionType
from typing import Any

import pytest
import torch
from tests.ops.compat.registry import CALLS, MODULES, Call
from torch import Tensor, nn

from farpoint_ops.compat import pointnet2, pointnet2_stack, pytorch3d, torch_cluster
from farpoint_ops.compat.pointops import batched

ERRORS = TypeError, ValueError, IndexError
# What these return has a place for each point or cloud that the argument counts.
COUNTED = "pointops.offset2batch", "pointops.batch2offset"
# Not looked at, for the sake of the original's signature.
IGNORED = {"num_workers", "version", "return_sorted"}


def wrong(value: Any, *, large: bool) -> list[Any]:
    """Values of other types, ranks, sizes, dtypes and ranges than a right one."""
    texts = ["text", [[1]], object()]
    if not isinstance(value, Tensor):
        return [*texts, torch.rand(2), -1, 0, float("nan")][: None if value else 4]
    others = [value[None], value[..., :-1], value[:-1], value[:0], torch.cat([value, value])]
    cast = value.long() if value.is_floating_point() else value.float()
    beyond = [value + (1 << 40)] if large else []
    return [*texts, *others, cast, value.bool(), value.flip(0) * -3, *beyond]


def said(function: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """The words of an error, or None for an answer."""
    try:
        function(**arguments)
    except ERRORS as error:
        return str(error)
    return None


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_names_an_argument(call: Call) -> None:
    names = set(signature(call.function).parameters)
    right = call.arguments(2, 12)
    assert said(call.function, right) is None
    unseen = {"new_xyz"} if "GroupAll" in call.name else IGNORED
    for name in names - unseen:
        for value in wrong(right.get(name), large=call.name not in COUNTED):
            message = said(call.function, right | {name: value})
            what = f"{call.name}({name}={value!r}) says {message}"
            assert message or not isinstance(value, str), what
            if message:
                subject, _, rest = message.partition(":")
                assert set(subject.split(", ")) <= names, what
                assert re.search(r"expected .*(, got |where idx is None)", rest, re.DOTALL), what


def test_every_function_has_a_call() -> None:
    aliases = {vars(m)[n] for m in MODULES for n in vars(m) if not n.startswith("_")}
    ours = {
        f"{value.__module__.rsplit('compat.', 1)[-1]}.{value.__qualname__}"
        for value in aliases
        if isfunction(value) or (isinstance(value, type) and issubclass(value, nn.Module))
        if re.match(r"farpoint_ops\.compat\.(?!_)|.*GroupAll", value.__module__)
    }
    assert ours <= {name.removesuffix(".forward") for name in CALLS}


@pytest.mark.parametrize(
    "module", [pointnet2.QueryAndGroup, pointnet2_stack.QueryAndGroup, batched.QueryAndGroup]
)
def test_a_module_refuses_what_its_forward_could_not_use(module: type[nn.Module]) -> None:
    with pytest.raises(ValueError, match="radius: expected a positive number, got 0"):
        module(0.0, 4)
    with pytest.raises(ValueError, match="nsample: expected at least 1, got 0"):
        module(0.5, 0)
    with pytest.raises(TypeError, match=r"nsample: expected int, got 0\.5"):
        module(4, 0.5)


def test_a_missing_argument_is_an_error_of_python() -> None:
    xyz = torch.rand(4, 3)
    functions: list[tuple[FunctionType, str]] = [
        (torch_cluster.knn, "'k'"),
        (pytorch3d.knn_gather, "'idx'"),
    ]
    for function, missing in functions:
        with pytest.raises(TypeError, match=f"missing .* {missing}"):
            function(xyz, xyz) if function is torch_cluster.knn else function(xyz)
