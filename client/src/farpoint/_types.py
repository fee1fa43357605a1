"""Types of arguments and results: arrays of any library, clouds and their attributes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farpoint.packed import FoxgloveCloudLike, PackedCloud, PointCloud2Like

Array: TypeAlias = NDArray[Any]


class SupportsArray(Protocol):
    """Has ``__array__``: numpy, torch and JAX arrays, pandas frames."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """Has ``__dlpack__`` and ``__dlpack_device__``."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


class HasPoints(Protocol):
    """`farpoint.io.Cloud`, a point cloud of Open3D."""

    @property
    def points(self) -> Any: ...


class HasPoint(Protocol):
    """A point cloud of Open3D's tensor API."""

    @property
    def point(self) -> Any: ...


class HasVertices(Protocol):
    """A mesh or point cloud of trimesh."""

    @property
    def vertices(self) -> Any: ...


class HasPos(Protocol):
    """A `Data` of PyTorch Geometric."""

    @property
    def pos(self) -> Any: ...


class HasXyz(Protocol):
    """A `LasData` of laspy."""

    @property
    def xyz(self) -> Any: ...


ArrayLike: TypeAlias = SupportsArray | SupportsDLPack
CloudArray: TypeAlias = np.ndarray[tuple[int, int], np.dtype[Any]]
BatchArray: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[Any]]
CloudLike: TypeAlias = (
    ArrayLike
    | HasPoints
    | HasPoint
    | HasVertices
    | HasPos
    | HasXyz
    | PackedCloud
    | PointCloud2Like
    | FoxgloveCloudLike
    | Sequence[Sequence[float]]
)
Attributes: TypeAlias = ArrayLike | Mapping[str, Any] | Sequence[Any]
CloudAttributes: TypeAlias = Array | dict[str, Array] | None
Counts: TypeAlias = int | Sequence[int] | None
"""One number for all clouds, one per cloud, or none."""
