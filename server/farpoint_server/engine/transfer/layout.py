"""Layout of several arrays in one buffer, so that one copy takes them all."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farpoint_server.engine.transfer.device import Array

# As torch and the driver align what they give out; the kernels load wide.
ALIGNMENT = 256


@dataclass(frozen=True)
class Place:
    """Where an array lies."""

    begin: int
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Places one after the other."""

    places: tuple[Place, ...]
    size: int
    """In bytes."""


def lay_out(arrays: "Iterable[tuple[np.dtype[Any], tuple[int, ...]]]") -> Layout:
    """Aligned places for arrays of these types and shapes."""
    places = []
    end = 0
    for dtype, shape in arrays:
        places.append(Place(end, dtype, shape))
        end += -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return Layout(tuple(places), end)


def joined(parts: Sequence[Array]) -> "tuple[np.dtype[Any], tuple[int, ...]]":
    """Type and shape of arrays that are laid end to end along their first dimension."""
    return parts[0].dtype, (sum(len(part) for part in parts), *parts[0].shape[1:])


def fill(target: Array, parts: Sequence[Array]) -> None:
    """Lays arrays end to end into `target`, in one copy."""
    begin = 0
    for part in parts:
        target[begin : begin + len(part)] = part
        begin += len(part)
