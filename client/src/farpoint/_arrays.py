"""Conversion of arguments (numpy, torch, DLPack, lists) to arrays and numbers of each cloud."""

import operator
import os
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farpoint._adapters import adapt, is_adaptable
from farpoint._types import Array, CloudAttributes
from farpoint.errors import InternalError, InvalidArgumentError


def as_array(value: object, name: str) -> Array:
    """`value` as a numpy array; copied only if it is on a device or is bfloat16.

    numpy has no bfloat16, so such values are widened to float32, which is exact.
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
    """A torch tensor on the CPU without gradient, by its methods."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if str(value.dtype) == "torch.bfloat16" else value


def _convert(value: Any) -> Array:
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


@dataclass(frozen=True)
class CloudBatch:
    """The clouds of one call, each with its attributes."""

    clouds: list[Array]
    """(Ni, 3) each, in its own dtype."""
    attributes: list[CloudAttributes]
    """For each cloud, with Ni rows."""
    single: bool
    """Whether the caller passed one cloud and not a list, and so wants one result."""

    def choose(self, i: int, rows: Array) -> tuple[Array, CloudAttributes]:
        """Coordinates and attributes of some rows of a cloud."""
        return self.clouds[i][rows], gather_attributes(self.attributes[i], rows)


def split_rows(
    indices: Array, lengths: Sequence[int], clouds: Sequence[Sized]
) -> list[NDArray[np.int64]]:
    """The sampled rows of each cloud; raises InternalError for invalid rows."""
    if indices.dtype.kind not in "iu":
        raise InternalError(f"the server answered with indices of type {indices.dtype}")
    parts = np.split(indices.astype(np.int64), np.cumsum(lengths)[:-1])
    for rows, cloud in zip(parts, clouds, strict=True):
        if not len(rows) or rows.min() < 0 or rows.max() >= len(cloud):
            low, high = (rows.min(), rows.max()) if len(rows) else (None, None)
            raise InternalError(
                f"the server answered with rows {low} to {high} of {len(cloud)} points"
            )
    return parts


def gather_attributes(attributes: CloudAttributes, rows: Array) -> CloudAttributes:
    """The attributes of some rows."""
    if isinstance(attributes, dict):
        return {name: values[rows] for name, values in attributes.items()}
    return None if attributes is None else attributes[rows]


def split_batch(points: object, attributes: Any, *, own_attributes: bool = False) -> CloudBatch:
    """The clouds of `points`, (N, 3), (B, N, 3) or a list of (Ni, 3), and their attributes.

    Args:
        points: arrays, or objects of other libraries, see `_adapters`.
        attributes: the caller's; None is without.
        own_attributes: whether attributes of such objects are used if the caller gives none.
    """
    if isinstance(points, (str, bytes, os.PathLike)):
        raise InvalidArgumentError(
            f"points must be an array, got {points!r}: farpoint.io.read_cloud(path) reads a file",
            field="points",
        )
    if not isinstance(points, np.ndarray) or points.dtype.names:
        points, own = _adapted(points)
        attributes = own if attributes is None and own_attributes else attributes
    clouds, single = _split_clouds(points)
    return CloudBatch(clouds, split_attributes(attributes, clouds, single), single)


def _adapted(points: Any) -> tuple[Any, Any]:
    """Objects of other libraries as arrays with their attributes, alone or in a list."""
    if not isinstance(points, (list, tuple)):
        return adapt(points)
    if not any(map(is_adaptable, points)):
        return points, None
    pairs = [adapt(cloud) for cloud in points]
    return [cloud for cloud, _ in pairs], [own for _, own in pairs]


def _split_clouds(points: object) -> tuple[list[Array], bool]:
    if isinstance(points, (list, tuple)) and _holds_clouds(points):
        clouds = [as_array(cloud, "points") for cloud in points]
        for i, cloud in enumerate(clouds):
            _check_cloud(cloud, f"points[{i}]")
        return clouds, False
    array = as_array(points, "points")
    if array.ndim == 3 and array.shape[2] == 3:
        if array.shape[0] and not array.shape[1]:
            _check_cloud(array[0], "points[0]")
        return list(array), False
    _check_cloud(array, "points")
    return [array], True


def _holds_clouds(points: Sequence[Any]) -> bool:
    """Whether a list is a batch; a list of rows is one cloud, and an empty one an empty batch."""
    return not points or np.ndim(points[0]) != 1


def _check_cloud(cloud: Array, name: str) -> None:
    if cloud.ndim != 2 or cloud.shape[1] != 3:
        raise InvalidArgumentError(
            f"{name} must have shape (N, 3), got {cloud.shape}", field="points.shape"
        )
    if not len(cloud):
        raise InvalidArgumentError(
            f"{name} must have at least one point, got 0", field="points.shape"
        )


def split_attributes(
    attributes: Any, clouds: Sequence[Sized], single: bool
) -> list[CloudAttributes]:
    """The attributes of each cloud: arrays with one row per point, alone or by name."""
    if attributes is None or not clouds:
        return [None] * len(clouds)
    if single:
        return [_per_point(attributes, clouds[0], "attributes")]
    if isinstance(attributes, Mapping):
        columns = {
            name: _one_each(values, clouds, f'attributes["{name}"]')
            for name, values in attributes.items()
        }
        attributes = [{name: columns[name][i] for name in columns} for i in range(len(clouds))]
    attributes = _one_each(attributes, clouds, "attributes")
    return [
        _per_point(values, cloud, f"attributes[{i}]")
        for i, (values, cloud) in enumerate(zip(attributes, clouds, strict=True))
    ]


def _one_each(values: Any, clouds: Sequence[Sized], name: str) -> Sequence[Any]:
    """`values` as a sequence with one entry per cloud; an array gives its first axis."""
    entries = values if isinstance(values, (list, tuple)) else list(as_array(values, name))
    if len(entries) != len(clouds):
        raise InvalidArgumentError(
            f"{name} must have one entry per cloud ({len(clouds)}), got {len(entries)}",
            field="attributes",
        )
    return entries


def _per_point(values: Any, cloud: Sized, name: str) -> CloudAttributes:
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {str(key): _rows(value, cloud, f'{name}["{key}"]') for key, value in values.items()}
    return _rows(values, cloud, name)


def _rows(values: Any, cloud: Sized, name: str) -> Array:
    array = as_array(values, name)
    if array.ndim == 0 or len(array) != len(cloud):
        raise InvalidArgumentError(
            f"{name} must have one row per point ({len(cloud)}), got shape {array.shape}",
            field="attributes",
        )
    return array


def check_sample_counts(m: object, clouds: Sequence[Sized]) -> list[int]:
    """One count for all clouds or one per cloud, as the request states them."""
    if m is None:
        raise InvalidArgumentError(
            "give m, the number of points to choose, or a radius, or both", field="sample_counts"
        )
    return _in_clouds(m, clouds, "m", "sample_counts", 1)


def check_start_indices(start: object, clouds: Sequence[Sized]) -> list[int]:
    """One start row for all clouds or one per cloud, as the request states them."""
    return _in_clouds(start, clouds, "start", "start_indices", 0)


def _in_clouds(
    value: Any, clouds: Sequence[Sized], name: str, field: str, lowest: int
) -> list[int]:
    """One whole number or one per cloud, each of as many values as the cloud has points."""
    try:
        numbers = [operator.index(v) for v in (value if np.ndim(value) else [value])]
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} must be a whole number, or a list of one per cloud, got {value!r}", field=field
        ) from error
    if np.ndim(value) > 1 or (np.ndim(value) and len(numbers) != len(clouds)):
        raise InvalidArgumentError(
            f"{name} must be one number or one per cloud ({len(clouds)}), got {len(numbers)}",
            field=field,
        )
    for i, cloud in enumerate(clouds):
        number, highest = numbers[i % len(numbers)], lowest + len(cloud) - 1
        if not lowest <= number <= highest:
            raise InvalidArgumentError(
                f"{name} must be from {lowest} to {highest} for the {len(cloud)} points of "
                f"cloud {i}, got {number}",
                field=f"{field}[{i}]",
            )
    return numbers
