"""Point cloud objects of other libraries as arrays, recognized by type name without imports.

Coordinates are taken from where the library keeps them, and everything it holds with one row per
point becomes an attribute.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from farpoint.errors import InvalidArgumentError
from farpoint.packed import as_packed

Attributes: TypeAlias = dict[str, Any]
Adapter: TypeAlias = Callable[[Any], tuple[Any, Attributes]]


def adapt(value: object) -> tuple[Any, Attributes | None]:
    """Coordinates (N, 3) and attributes of an object of a known library.

    Returns:
        `value` itself and None, if it is of no such library; None too if it has no attributes.
    """
    adapter = _adapter(type(value))
    if adapter is None:
        packed = as_packed(value)
        return (value, None) if packed is None else (packed.points, packed.attributes or None)
    points, attributes = adapter(value)
    return points, attributes or None


def is_adaptable(value: object) -> bool:
    """Whether `adapt` supports it."""
    return _adapter(type(value)) is not None or as_packed(value) is not None


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
