"""Items of datasets (arrays, tuples, dicts, `Data`) as clouds, and copies with chosen rows."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farpoint._adapters import per_point_keys
from farpoint._arrays import as_array
from farpoint._types import Array
from farpoint.errors import InvalidArgumentError

Rows = NDArray[np.int64]
COORDINATES = ("coord", "pos", "points", "xyz")
# Pointcept's names of the ends of several clouds, and of what has one row per point.
OFFSET = "offset"
PER_POINT = "index_valid_keys"


class Container:
    """Clouds with data that belongs to their points."""

    clouds: list[Array]

    def select(self, rows: list[Rows]) -> Any:
        """A copy with these rows of each cloud alone."""
        raise NotImplementedError


def open_container(data: Any, key: str | None) -> Container:
    """The container that fits `data`; raises InvalidArgumentError where it has no coordinates."""
    if isinstance(data, Mapping):
        return DictContainer(data, key)
    if isinstance(data, (tuple, list)):
        return TupleContainer(data)
    return GraphContainer(data) if hasattr(data, "is_node_attr") else ArrayContainer(data)


class ArrayContainer(Container):
    """An array or tensor (N, 3 + C)."""

    def __init__(self, points: Any) -> None:
        self._points = points
        self.clouds = [_coordinates(points)]

    def select(self, rows: list[Rows]) -> Any:
        return self._points[rows[0]]


class TupleContainer(Container):
    """Points (N, 3 + C) first, then anything."""

    def __init__(self, items: Sequence[Any]) -> None:
        if not items:
            raise InvalidArgumentError("got an empty tuple, expected points first", field="points")
        self._items = items
        self.clouds = [_coordinates(items[0])]

    def select(self, rows: list[Rows]) -> Any:
        count = len(self.clouds[0])
        items = [item[rows[0]] if _has_rows(item, count) else item for item in self._items]
        make: Any = getattr(self._items, "_make", type(self._items))  # of a named tuple
        return make(items)


class DictContainer(Container):
    """A dict as Pointcept has them: "coord", "color", "segment", "offset"."""

    def __init__(self, data: Mapping[str, Any], key: str | None) -> None:
        names = COORDINATES if key is None else (key,)
        found = next((name for name in names if name in data), None)
        if found is None:
            raise InvalidArgumentError(
                f"expected coordinates under one of {list(names)}, got the keys {list(data)}",
                field="points",
            )
        self._data = data
        points = _coordinates(data[found])
        self._count = len(points)
        self._ends = self._read_ends()
        self.clouds = np.split(points, self._ends[:-1])

    def select(self, rows: list[Rows]) -> Any:
        begins = [0, *self._ends[:-1].tolist()]
        chosen = np.concatenate([r + begin for r, begin in zip(rows, begins, strict=True)])
        selected = {key: self._data[key][chosen] for key in self._per_point_keys()}
        if OFFSET in self._data:
            ends = np.cumsum([len(r) for r in rows])
            selected[OFFSET] = _like(self._data[OFFSET], ends)
        return {**self._data, **selected}

    def _read_ends(self) -> Rows:
        """Where each cloud ends; the last end is the number of points."""
        if OFFSET not in self._data:
            return np.array([self._count])
        ends = as_array(self._data[OFFSET], OFFSET).astype(np.int64)
        if ends.ndim != 1 or not len(ends) or ends[-1] != self._count or (np.diff(ends) < 0).any():
            raise InvalidArgumentError(
                f"offset must be the ends of the clouds, up to {self._count}, got {ends.tolist()}",
                field=OFFSET,
            )
        return ends

    def _per_point_keys(self) -> list[str]:
        if PER_POINT in self._data:
            return [key for key in self._data[PER_POINT] if key in self._data]
        keys = (key for key in self._data if key != OFFSET)
        return [key for key in keys if _has_rows(self._data[key], self._count)]


class GraphContainer(Container):
    """A `Data` of PyTorch Geometric without edges."""

    def __init__(self, data: Any) -> None:
        if hasattr(data, "to_data_list"):
            raise InvalidArgumentError(
                "got a Batch: give the transform to the dataset, before clouds are joined",
                field="points",
            )
        if getattr(data, "edge_index", None) is not None:
            raise InvalidArgumentError(
                "the Data has edges between points: sample before they are made", field="edge_index"
            )
        self._data = data
        self.clouds = [_coordinates(data.pos)]

    def select(self, rows: list[Rows]) -> Any:
        data = copy.copy(self._data)
        for key in per_point_keys(data):
            data[key] = data[key][rows[0]]
        if "num_nodes" in data.to_dict():
            data.num_nodes = len(rows[0])
        return data


def _coordinates(points: Any) -> Array:
    """The first three columns of an array or tensor."""
    array = as_array(points, "points")
    if array.ndim != 2 or array.shape[1] < 3:
        raise InvalidArgumentError(
            f"points must have shape (N, 3) or more columns, got {array.shape}",
            field="points.shape",
        )
    return array[:, :3]


def _has_rows(value: Any, count: int) -> bool:
    """Whether it is an array or tensor with one row per point."""
    shape: Any = getattr(value, "shape", ())
    return len(shape) > 0 and shape[0] == count


def _like(value: Any, numbers: Array) -> Any:
    """`numbers` in the type of `value`: a list, an array, or a tensor on its device."""
    if hasattr(value, "new_tensor"):
        return value.new_tensor(numbers.tolist())
    return numbers.astype(value.dtype) if hasattr(value, "dtype") else numbers.tolist()
