"""Types of arguments and results: arrays of any library, clouds, and what belongs to them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farpoint._adapters import HasPoint, HasPoints, HasPos, HasVertices, HasXyz
from farpoint.packed import PackedCloud
from farpoint.packed.fields import FoxgloveCloudLike, PointCloud2Like

Array: TypeAlias = NDArray[Any]


class SupportsArray(Protocol):
    """Has ``__array__``: numpy, torch and JAX arrays, pandas frames."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """Has ``__dlpack__`` and ``__dlpack_device__``."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


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
