"""Shared by the drop-ins: arguments are checked, and every error names them as the drop-in does."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from numbers import Real
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

P = ParamSpec("P")
R = TypeVar("R")
OptTensor = Tensor | None

_INTEGERS = (torch.int32, torch.int64)


def checked(shapes: str = "", **inner: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function check types and shapes, and rename what the ops below call an argument.

    Args:
        shapes: Names of tensors, each with its dimensions, ``"xyz B N 3, idx B M int"``: one name
            is one size for all of them. ``int`` behind the dimensions asks for int32 or int64.
        inner: For words in errors of the ops below, the words that the caller knows.

    A compiled graph makes no checks of its own, and a script compiles the function within.
    """
    wanted = [part.split() for part in shapes.split(",") if part]
    words = re.compile(rf"\b({'|'.join(inner) or '(?!)'})\b")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        hints = get_type_hints(function)
        parameters = signature(function).parameters
        names = list(parameters)
        required = {n for n, p in parameters.items() if p.default is p.empty}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = dict(zip(names, args, strict=False)) | kwargs
            if torch.compiler.is_compiling() or not required <= given.keys():
                return function(*args, **kwargs)
            for name, value in given.items():
                if name in hints:
                    _check_type(name, value, hints[name])
            _check_shapes(given, wanted)
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError) as error:
                text, name = str(error), str(error).partition(":")[0]
                if name in inner or name not in names:
                    text = words.sub(lambda word: inner[word[0]], text)
                raise type(error)(text).with_traceback(error.__traceback__) from None

        # As torch.jit.script_if_tracing marks what a script calls in the place of the wrapper.
        vars(call).update({"__script_if_tracing_wrapper": True, "__original_fn": function})
        return call

    return decorate


def _check_type(name: str, value: object, hint: Any) -> None:
    """Raises TypeError where the value is of none of the types of an annotation."""
    # A Union rather than a UnionType where Python 3.10 finds None as the default.
    allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not any(_is_a(value, kind) for kind in allowed):
        types = " or ".join(
            "None" if kind is type(None) else getattr(kind, "__name__", str(kind))
            for kind in allowed
        )
        got = type(value).__name__ if isinstance(value, Tensor | nn.Module) else repr(value)[:60]
        raise TypeError(f"{name}: expected {types}, got {got}")


def _is_a(value: object, kind: Any) -> bool:
    if kind is bool or (isinstance(value, bool) and kind in (int, float)):
        return kind is bool and isinstance(value, int)
    if kind is int:
        return isinstance(value, int | torch.SymInt) or _is_scalar(value, floating=False)
    if kind is float:
        return isinstance(value, Real | torch.SymFloat) or _is_scalar(value, floating=True)
    if get_args(kind):
        return isinstance(value, Sequence) and all(_is_a(v, get_args(kind)[0]) for v in value)
    return kind is Any or isinstance(value, kind)


def _is_scalar(value: object, *, floating: bool) -> bool:
    if isinstance(value, Tensor):
        return value.dim() == 0 and (floating or value.dtype in _INTEGERS)
    return hasattr(value, "__index__") or (floating and hasattr(value, "__float__"))


def _check_shapes(given: dict[str, Any], wanted: list[list[str]]) -> None:
    sizes: dict[str, int] = {}
    for name, *dims in wanted:  # "_" is a size that no other has
        value = given.get(name)
        if value is None:
            continue
        if dims[-1] == "int":
            del dims[-1]
            if value.dtype not in _INTEGERS:
                raise TypeError(f"{name}: expected int32 or int64, got {value.dtype}")
        elif value.dtype == torch.bool and dims[-1] in ("3", "D"):
            raise TypeError(f"{name}: expected coordinates, got {value.dtype}")
        sizes |= {d: int(d) for d in dims if d.isdigit()}
        shape = list(value.shape)
        if len(shape) == len(dims):
            for dim, size in zip(dims, shape, strict=True):
                sizes.setdefault(dim, size)
        if len(shape) != len(dims) or any(
            dim != "_" and sizes[dim] != size for dim, size in zip(dims, shape, strict=True)
        ):
            known = [f"{d} = {sizes[d]}" for d in dims if d in sizes and d[0].isalpha()]
            where = f" with {', '.join(known)}" if known else ""
            named = ", ".join(dims) if len(dims) > 1 else f"{dims[0]},"
            raise ValueError(f"{name}: expected shape ({named}){where}, got {shape}")


def check_ball(radius: float | None, nsample: int) -> None:
    """Raises ValueError for a ball that holds nothing, or a group of nothing."""
    if radius is not None and not radius > 0:
        raise ValueError(f"radius: expected a positive number, got {radius}")
    if nsample < 1:
        raise ValueError(f"nsample: expected at least 1, got {nsample}")


def check_rows(name: str, rows: Tensor, points: int, *, missing: int = 0) -> None:
    """Raises IndexError for rows that no point has; -1 may stand for no row.

    Torch's own words name no argument. On a GPU they come as a device assertion, without a wait.
    """
    if torch.compiler.is_compiling() or rows.device.type != "cpu" or not rows.numel():
        return
    low, high = (int(v) for v in rows.aminmax())
    if low < missing or high >= points:
        raise IndexError(f"{name}: expected {missing} <= row < {points}, got {low} to {high}")
