"""Whatever the caller holds, as numpy arrays."""

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farpoint.errors import InvalidArgumentError

Array: TypeAlias = NDArray[Any]


class SupportsArray(Protocol):
    """Has ``__array__``: numpy, torch and JAX arrays, pandas frames."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """Has ``__dlpack__`` and ``__dlpack_device__``."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


ArrayLike: TypeAlias = SupportsArray | SupportsDLPack


def as_array(value: object, name: str) -> Array:
    """`value` as a numpy array; copied only when it lies on a device or is bfloat16.

    numpy has no bfloat16, so such values are widened to float32, which is exact.

    Raises:
        InvalidArgumentError: `value` is no array, ragged, or partly masked.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidArgumentError(
            f"{name} must be a plain array, got a masked one: drop or fill its masked values",
            field=name,
        )
    try:
        array = _convert(_on_host(value))
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InvalidArgumentError(
            f"{name} must be an array, got {type(value).__name__}: {error}", field=name
        ) from error
    # JAX spells bfloat16 as an extension type of numpy.
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _on_host(value: Any) -> Any:
    """A torch tensor without its gradient and its device, by its methods alone."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if str(value.dtype) == "torch.bfloat16" else value


def _convert(value: Any) -> Array:
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def coordinates_for_wire(points: Array) -> Array:
    """`points` in a type that can be sent, of either byte order; not copied where nothing changes.

    float16, float32 and float64 stay as they are. Integers of 8 and 16 bits become float32 and
    wider ones float64; both steps are exact.

    Raises:
        InvalidArgumentError: any other type, or integers beyond ±2^53.
    """
    kind, size = points.dtype.kind, points.dtype.itemsize
    if kind == "f" and size in (2, 4, 8):
        return points
    if kind in "iu":
        if size == 8:
            _check_exact_in_float64(points)
        return points.astype("<f4" if size <= 2 else "<f8")
    raise InvalidArgumentError(
        f"points must be float16, bfloat16, float32, float64 or integers, got {points.dtype}",
        field="points.data_type",
    )


def _check_exact_in_float64(points: Array) -> None:
    limit = 2**53
    if points.size and (points.max() > limit or points.min() < -limit):
        raise InvalidArgumentError(
            "integer points must lie within ±2^53, where float64 is exact",
            field="points.data",
        )
