"""Structured arrays and point clouds of other libraries as arrays.

Objects are recognized by type name without imports. Coordinates are taken from where the library
keeps them, and everything it holds with one row per point becomes an attribute.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from farpoint._types import Array
from farpoint.errors import InvalidArgumentError
from farpoint.packed import AXES, as_packed

Attributes: TypeAlias = dict[str, Any]
Adapter: TypeAlias = Callable[[Any], tuple[Any, Attributes]]

_HEIGHTS = ("z", "elevation", "elev", "height", "altitude", "alt", "h", "up", "u")
# Spellings of the three axes, in the order in which they are tried; the last may be any height.
_SPELLINGS = (
    ("x", "y", _HEIGHTS),
    ("easting", "northing", _HEIGHTS),
    ("east", "north", _HEIGHTS),
    ("e", "n", _HEIGHTS),
    ("points:0", "points:1", ("points:2",)),
    ("points_0", "points_1", ("points_2",)),
)
# One field with all three coordinates.
_WIDE = ("xyz", "points", "position", "positions", "coord", "coords", "coordinates")


def adapt(value: object) -> tuple[Any, Attributes | None]:
    """Coordinates (N, 3) and attributes of an object of a known library.

    Returns:
        `value` itself and None, if it is of no such library; None too if it has no attributes.
    """
    adapter: Adapter | None = _structured if _is_structured(value) else _adapter(type(value))
    if adapter is None:
        packed = as_packed(value)
        return (value, None) if packed is None else (packed.points, packed.attributes or None)
    points, attributes = adapter(value)
    return points, attributes or None


def is_adaptable(value: object) -> bool:
    """Whether `adapt` supports it."""
    known = _is_structured(value) or _adapter(type(value)) is not None
    return known or as_packed(value) is not None


def _is_structured(value: object) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and bool(value.dtype.names)


def _structured(records: Array) -> tuple[Any, Attributes]:
    if any(np.ma.is_masked(records[name]) for name in records.dtype.names or ()):
        raise InvalidArgumentError(
            "points must be a plain array, got a masked one: drop or fill its masked values",
            field="points",
        )
    try:
        return split_records(records)
    except ValueError as error:
        raise InvalidArgumentError(f"points: {error}", field="points") from error


def _adapter(kind: type) -> Adapter | None:
    for base in kind.__mro__:
        adapter = _ADAPTERS.get((base.__module__.partition(".")[0], base.__name__))
        if adapter is not None:
            return adapter
    return None


def _cloud(cloud: Any) -> tuple[Any, Attributes]:
    return cloud.points, dict(cloud.attributes)


def _frame(frame: Any) -> tuple[Any, Attributes]:
    """The columns x, y and z, in either case; without them the frame is a plain array."""
    names = {str(name).lower(): name for name in frame.columns}
    if not {"x", "y", "z"} <= names.keys():
        return frame.to_numpy(), {}
    axes = [names[axis] for axis in "xyz"]
    others = [name for name in frame.columns if name not in axes]
    return frame[axes].to_numpy(), {str(name): frame[name].to_numpy() for name in others}


def _las(las: Any) -> tuple[Any, Attributes]:
    names = [name for name in las.point_format.dimension_names if name not in ("X", "Y", "Z")]
    return las.xyz, {name: np.asarray(las[name]) for name in names}


def _mesh(mesh: Any) -> tuple[Any, Attributes]:
    """The vertices; those of a `PointCloud` with their colors."""
    colors = getattr(mesh, "colors", None)
    has_colors = colors is not None and len(colors) == len(mesh.vertices)
    return np.asarray(mesh.vertices), {"colors": np.asarray(colors)} if has_colors else {}


def _open3d(cloud: Any) -> tuple[Any, Attributes]:
    if hasattr(cloud, "point"):  # the tensor API: a map of tensors on some device
        values = {name: cloud.point[name].cpu().numpy() for name in cloud.point}
        if "positions" not in values:
            raise InvalidArgumentError("the point cloud has no positions", field="points")
        return values.pop("positions"), values
    names = [name for name in ("colors", "normals") if getattr(cloud, f"has_{name}")()]
    return np.asarray(cloud.points), {name: np.asarray(getattr(cloud, name)) for name in names}


def _pyg(data: Any) -> tuple[Any, Attributes]:
    if hasattr(data, "to_data_list"):
        raise InvalidArgumentError(
            "a Batch holds several clouds: pass batch.to_data_list()", field="points"
        )
    if data.pos is None:
        raise InvalidArgumentError("the Data has no pos", field="points")
    others: Mapping[str, Any] = {k: v for k, v in data.to_dict().items() if k != "pos"}
    return data.pos, {
        key: value
        for key, value in others.items()
        if data.is_node_attr(key) and hasattr(value, "shape")
    }


_ADAPTERS: dict[tuple[str, str], Adapter] = {
    ("farpoint", "Cloud"): _cloud,
    ("laspy", "LasData"): _las,
    ("open3d", "PointCloud"): _open3d,
    ("pandas", "DataFrame"): _frame,
    ("torch_geometric", "Data"): _pyg,
    ("trimesh", "PointCloud"): _mesh,
    ("trimesh", "Trimesh"): _mesh,
}


def axis_positions(names: list[str]) -> list[int]:
    """Indices of x, y and z among the names, in any case, also as easting, northing, elevation."""
    plain = [_without_unit(name) for name in names]
    for first, second, thirds in _SPELLINGS:
        third = next((name for name in thirds if name in plain), None)
        if first in plain and second in plain and third is not None:
            return [plain.index(name) for name in (first, second, third)]
    missing = [axis for axis in AXES if axis not in plain]
    raise ValueError(f"no {', '.join(missing)} among the fields {', '.join(names)}")


def _without_unit(name: str) -> str:
    """`X [m]` and `x (us-ft)` are x."""
    return re.sub(r"\s*[\[(][^\])]*[\])]\s*$", "", name.strip().lower())


def split_records(records: Array) -> tuple[Array, dict[str, Array]]:
    """Coordinates (N, 3) of structured records of any shape, and their other fields by name."""
    records, names = records.reshape(-1), list(records.dtype.names or ())
    wide = next((n for n in names if n.lower() in _WIDE and records[n].shape[1:] == (3,)), None)
    if wide is not None:
        return records[wide], {name: records[name] for name in names if name != wide}
    axes = [names[i] for i in axis_positions(names)]
    for axis in axes:
        if records[axis].ndim != 1 or records[axis].dtype.kind not in "fiu":
            raise ValueError(
                f"the field {axis} must hold one number per point, not {records.dtype[axis]}"
            )
    points = np.stack([records[axis] for axis in axes], axis=1)
    return points, {name: records[name] for name in names if name not in axes}
