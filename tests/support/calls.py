"""A table of calls, and each call under torch's tools: what the docs promise for every option."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from tests.support.tensors import assert_same
from torch import Tensor, nn

Arguments = dict[str, Any]
Outputs = tuple[Tensor, ...]
# Parameters that hold coordinates, which are computed in the wider of their types.
COORDINATES = {"xyz", "queries", "centers", "samples", "distances"}


@dataclass(frozen=True)
class Inputs:
    """Seeded arguments of B clouds of N points, or of flat ones."""

    b: int
    n: int
    seed: int = 0
    generator: torch.Generator = field(default_factory=torch.Generator)

    def __post_init__(self) -> None:
        self.generator.manual_seed(1000 * self.seed + 10 * self.n + self.b)

    def values(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator)

    def cloud(self, n: int | None = None) -> Tensor:
        return self.values(self.b, n or self.n, 3)

    def flat(self) -> Tensor:
        return self.values(self.b * self.n, 3)

    def idx(self, high: int, *shape: int) -> Tensor:
        return torch.randint(high, (self.b, *shape), generator=self.generator)

    def per_cloud(self, low: int, high: int) -> Tensor:
        return torch.randint(low, high, (self.b,), generator=self.generator)

    def offsets(self) -> Tensor:
        return torch.arange(self.b + 1) * self.n


@dataclass(frozen=True)
class Call:
    """A function with some of its options.

    Attributes:
        make: Its arguments by name. Numbers may depend on B and N.
        unsupported: The sentence that a tool ends with: "compile", "export", "vmap".
        fixed: Sizes that lists of the arguments fix, "B" or "BN".
    """

    name: str
    function: Callable[..., Any]
    make: Callable[[Inputs], Arguments]
    unsupported: dict[str, str] = field(default_factory=dict)
    fixed: str = ""

    def __str__(self) -> str:
        return self.name

    def sizes(self) -> list[tuple[int, int]]:
        """B and N, the second pair not what the first was traced with."""
        return [(3, 40), (3 if "B" in self.fixed else 4, 40 if "N" in self.fixed else 61)]

    def __call__(self, arguments: Arguments, function: Callable[..., Any] | None = None) -> Outputs:
        """The tensors of the result; random numbers are the same each time."""
        torch.manual_seed(0)
        for value in arguments.values():
            if isinstance(value, torch.Generator):
                value.manual_seed(0)
        result = (function or self.function)(**arguments)
        return (result,) if isinstance(result, Tensor) else tuple(result)


def tensors_of(arguments: Arguments) -> dict[str, Tensor]:
    return {name: value for name, value in arguments.items() if isinstance(value, Tensor)}


def ends_with_the_sentence(call: Call, tool: str, run: Callable[[Call], None]) -> None:
    """Runs a check, or checks that it ends with the sentence that the table has for it."""
    if tool not in call.unsupported:
        return run(call)
    with pytest.raises(Exception, match=re.escape(call.unsupported[tool])):
        run(call)
    return None


def compile_once(call: Call, more: Sequence[tuple[int, int]] = (), graphs: int = 1) -> None:
    """One graph without a break, or so many, serves every size, other numbers included."""
    from torch._dynamo.testing import CompileCounterWithBackend  # seconds to import

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call.function, fullgraph=True, dynamic=True, backend=counter)
    for size in (*call.sizes(), *more):
        arguments = call.make(Inputs(*size))
        # Sizes that are equal by chance are no reason for a guard.
        with (
            torch.fx.experimental._config.patch(use_duck_shape=False),
            torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        ):
            actual = call(arguments, compiled)
        assert_same(actual, call(arguments))
    assert counter.frame_count <= graphs, "a guard on a size or on a number"


class _Program(nn.Module):
    def __init__(self, call: Call, constants: Arguments) -> None:
        super().__init__()
        self.call, self.constants = call, constants

    def forward(self, tensors: dict[str, Tensor]) -> Outputs:
        return self.call({**self.constants, **tensors})


def export_once(call: Call) -> None:
    """One program, traced with the first size, serves both."""
    first, *others = (call.make(Inputs(*size)) for size in call.sizes())
    tensors = tensors_of(first)
    program = _Program(call, {k: v for k, v in first.items() if k not in tensors})
    free = {
        name: dict.fromkeys(range(t.dim()), torch.export.Dim.AUTO) for name, t in tensors.items()
    }
    exported = torch.export.export(program, (tensors,), dynamic_shapes=(free,)).module()
    for arguments in (first, *others):
        tensors = tensors_of(arguments)
        torch.manual_seed(0)
        assert_same(exported(tensors), program(tensors))


def vmap_is_a_loop(call: Call) -> None:
    """Over a dimension in front of every tensor."""
    each = [call.make(Inputs(*call.sizes()[0], seed)) for seed in range(2)]
    names = list(tensors_of(each[0]))

    def one(*tensors: Tensor) -> Outputs:
        return call({**each[0], **dict(zip(names, tensors, strict=True))})

    expected = [one(*tensors_of(arguments).values()) for arguments in each]
    stacked = (torch.stack([arguments[name] for arguments in each]) for name in names)
    actual = torch.vmap(one, randomness="same")(*stacked)
    assert_same(actual, tuple(map(torch.stack, zip(*expected, strict=True))))


def autocast_changes_nothing(call: Call) -> None:
    """Coordinates are computed in the wider of their types, values keep their own."""
    arguments = call.make(Inputs(*call.sizes()[0]))
    floats = [name for name, t in tensors_of(arguments).items() if t.is_floating_point()]
    for narrow in {tuple(floats[:1]), tuple(floats[1:]), tuple(floats)}:
        mixed = {k: v.bfloat16() if k in narrow else v for k, v in arguments.items()}
        expected = call(mixed)
        with torch.autocast("cpu", torch.bfloat16):
            assert_same(call(mixed), expected)
        wide = {k: v.float() if k in COORDINATES else v for k, v in mixed.items()}
        assert_same(expected, tuple(w.to(e) for w, e in zip(call(wide), expected, strict=True)))


def no_tensor_on_the_default_device(call: Call) -> None:
    arguments = call.make(Inputs(*call.sizes()[0]))
    expected = call(arguments)
    with torch.device("cuda:9999999"):  # an error for any tensor that is made there
        actual = call(arguments)
    assert_same(actual, expected)


def forms(annotation: Any) -> Iterator[Callable[[Any], bool]]:
    """A test of a value for each form that an annotation allows."""
    if get_origin(annotation) in (Union, UnionType):
        for arm in get_args(annotation):
            yield from forms(arm)
    elif get_origin(annotation) is Literal:
        for literal in get_args(annotation):
            yield lambda value, literal=literal: isinstance(value, str) and value == literal
    elif annotation is bool:
        yield lambda value: value is True
    elif annotation is not type(None):
        kind = get_origin(annotation) or annotation
        kind = (list, tuple) if issubclass(kind, Sequence) and kind is not str else kind
        yield lambda value: isinstance(value, kind)


def missing_options(calls: Iterable[Call], functions: Iterable[Callable[..., Any]]) -> list[str]:
    """Parameters of the functions, with the number of the form, that no call of the table has."""
    used: dict[Any, list[Arguments]] = {}
    for call in calls:
        used.setdefault(call.function, []).append(call.make(Inputs(*call.sizes()[0])))
    missing = []
    for function in functions:
        hints = get_type_hints(function)
        for name in signature(function).parameters:
            given = [arguments[name] for arguments in used.get(function, []) if name in arguments]
            for number, holds in enumerate(forms(hints[name])):
                if not any(map(holds, given)):
                    missing.append(f"{function.__name__}({name}): form {number}")
    return missing
