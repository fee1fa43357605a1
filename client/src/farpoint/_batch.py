"""The arguments of `sample`, checked and spread over the clouds of a batch."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from farpoint._arrays import Array, ArrayLike, as_array
from farpoint.errors import InvalidArgumentError

Attributes: TypeAlias = ArrayLike | Mapping[str, Any] | Sequence[Any]
Gathered: TypeAlias = Array | dict[str, Array] | None


def split_clouds(points: object) -> tuple[list[Array], bool]:
    """The clouds of `points`, each (Ni, 3) in its own type, and whether it was a single cloud."""
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


def check_sample_counts(m: object, clouds: list[Array]) -> list[int]:
    """One count for all clouds or one per cloud, as the request states them."""
    counts = _whole_numbers(m, len(clouds), "m", "sample_counts")
    for i, (cloud, count) in enumerate(zip(clouds, _spread(counts, clouds), strict=True)):
        if not 1 <= count <= len(cloud):
            raise InvalidArgumentError(
                f"m must be from 1 to the {len(cloud)} points of cloud {i}, got {count}",
                field=f"sample_counts[{i}]",
            )
    return counts


def check_start_indices(start: object, clouds: list[Array]) -> list[int]:
    """One start row for all clouds or one per cloud, as the request states them."""
    starts = _whole_numbers(start, len(clouds), "start", "start_indices")
    for i, (cloud, row) in enumerate(zip(clouds, _spread(starts, clouds), strict=True)):
        if not 0 <= row < len(cloud):
            raise InvalidArgumentError(
                f"start must be a row from 0 to {len(cloud) - 1} of cloud {i}, got {row}",
                field=f"start_indices[{i}]",
            )
    return starts


def _spread(values: list[int], clouds: list[Array]) -> list[int]:
    return values * len(clouds) if len(values) == 1 else values


def _whole_numbers(value: Any, clouds: int, name: str, field: str) -> list[int]:
    try:
        numbers = [operator.index(v) for v in (value if np.ndim(value) else [value])]
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} must be a whole number, or a list of one per cloud, got {value!r}", field=field
        ) from error
    if np.ndim(value) > 1 or (np.ndim(value) and len(numbers) != clouds):
        raise InvalidArgumentError(
            f"{name} must be one number or one per cloud ({clouds}), got {len(numbers)}",
            field=field,
        )
    return numbers


def split_attributes(attributes: Any, clouds: list[Array], single: bool) -> list[Gathered]:
    """What belongs to each cloud: arrays with one row per point, alone or by name."""
    if attributes is None:
        return [None] * len(clouds)
    if single:
        return [_per_point(attributes, clouds[0], "attributes")]
    if isinstance(attributes, Mapping):
        columns = {name: _one_each(values, clouds, name) for name, values in attributes.items()}
        attributes = [{name: columns[name][i] for name in columns} for i in range(len(clouds))]
    attributes = _one_each(attributes, clouds, "attributes")
    return [
        _per_point(values, cloud, f"attributes[{i}]")
        for i, (values, cloud) in enumerate(zip(attributes, clouds, strict=True))
    ]


def _one_each(values: Any, clouds: list[Array], name: str) -> Sequence[Any]:
    """`values` as a sequence with one entry per cloud; an array gives its first axis."""
    entries = values if isinstance(values, (list, tuple)) else list(as_array(values, name))
    if len(entries) != len(clouds):
        raise InvalidArgumentError(
            f"{name} must have one entry per cloud ({len(clouds)}), got {len(entries)}",
            field="attributes",
        )
    return entries


def _per_point(values: Any, cloud: Array, name: str) -> Gathered:
    if isinstance(values, Mapping):
        return {str(key): _rows(value, cloud, str(key)) for key, value in values.items()}
    return _rows(values, cloud, name)


def _rows(values: Any, cloud: Array, name: str) -> Array:
    array = as_array(values, name)
    if array.ndim == 0 or len(array) != len(cloud):
        raise InvalidArgumentError(
            f"{name} must have one row per point ({len(cloud)}), got shape {array.shape}",
            field="attributes",
        )
    return array
