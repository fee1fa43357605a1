"""numpy's .npy: (N, 3 or more), organized (H, W, 3 or more), or structured with x, y, z."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from numpy.lib.recfunctions import repack_fields

from farpoint._adapters import split_records
from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.records import named_columns

# A point with more columns than this is more likely an array with one row per axis.
_MAX_COLUMNS = 64


@dataclass(frozen=True)
class NpySource:
    """The array with one row per point."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        np.save(path, repack_fields(self.array[rows]))


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads a .npy file; columns after the third become `column_3` and so on."""
    with path.open("rb") as stream:
        check_size(stream, path.stat().st_size)
        array = np.load(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError("bytes are left over after the array")
    return cloud_of(array, options)


def check_size(stream: BinaryIO, size: int) -> None:
    """Raises ValueError if a header announces more than the file has.

    numpy allocates the whole array before it reads.
    """
    magic = stream.read(8)
    stream.seek(0)
    if len(magic) < 8 or not magic.startswith(b"\x93NUMPY"):
        return  # np.load says what is wrong
    read_magic(stream)
    read_header = read_array_header_1_0 if magic[6] == 1 else read_array_header_2_0
    shape, _, dtype = read_header(stream)
    announced = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and announced > size - stream.tell():
        raise ValueError(
            f"an array of {announced} bytes is announced, {size - stream.tell()} are there"
        )
    stream.seek(0)


def cloud_of(array: Array, options: ReadOptions) -> Cloud:
    """The cloud of an array of any layout."""
    if array.dtype.names:
        array = array.reshape(-1)
        return Cloud(*split_records(array), NpySource(array))
    if array.dtype.kind not in "fiu":
        raise ValueError(f"expected numbers, got an array of {array.dtype}")
    if options.columns:
        return _with_names(array, options.columns)
    if array.ndim not in (2, 3) or array.shape[-1] < 3:
        raise ValueError(f"expected shape (N, 3 or more) or (H, W, 3 or more), got {array.shape}")
    if array.ndim == 2 and _is_transposed(*array.shape):
        raise ValueError(
            f"shape {array.shape} looks like one row per axis: name the columns if these are "
            f"{array.shape[1]} points (--columns x,y,z), or if they are {array.shape[0]}"
        )
    names = ["x", "y", "z", *(f"column_{i}" for i in range(3, array.shape[-1]))]
    return _by_name(array.reshape(-1, array.shape[-1]), names)


def _is_transposed(rows: int, columns: int) -> bool:
    return (rows == 3 < columns) or (columns > _MAX_COLUMNS and rows < columns)


def _with_names(array: Array, names: tuple[str, ...]) -> Cloud:
    """The axis of the columns: the one with as many entries as there are names."""
    if array.ndim in (2, 3) and array.shape[-1] == len(names):
        return _by_name(array.reshape(-1, len(names)), list(names))
    if array.ndim == 2 and array.shape[0] == len(names):
        return _by_name(array.T, list(names))
    raise ValueError(f"{len(names)} columns are named, the array has shape {array.shape}")


def _by_name(array: Array, names: list[str]) -> Cloud:
    return Cloud(*named_columns(array, names), NpySource(array))


def write(path: Path, cloud: Cloud) -> list[str]:
    """Writes only the coordinates; returns the attributes, for which the format has no names."""
    np.save(path, cloud.points)
    return list(cloud.attributes)
