"""numpy's .npy: (N, 3 or more), organised (H, W, 3 or more), or structured with x, y, z."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._arrays import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.records import split_records


@dataclass(frozen=True)
class NpySource:
    """The array with one row per point."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        np.save(path, self.array[rows])


def read(path: Path) -> Cloud:
    """Reads a .npy file; columns after the third become `column_3` and so on."""
    with path.open("rb") as stream:
        array = np.load(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError("bytes are left over after the array")
    return cloud_of(array)


def cloud_of(array: Array) -> Cloud:
    """The cloud that an array holds, whatever its layout."""
    if array.dtype.names:
        array = array.reshape(-1)
        return Cloud(*split_records(array), NpySource(array))
    if array.ndim not in (2, 3) or array.shape[-1] < 3:
        raise ValueError(f"expected shape (N, 3 or more) or (H, W, 3 or more), got {array.shape}")
    array = array.reshape(-1, array.shape[-1])
    columns = {f"column_{i}": array[:, i] for i in range(3, array.shape[1])}
    return Cloud(array[:, :3], columns, NpySource(array))


def write(path: Path, points: Array, attributes: dict[str, Array]) -> None:  # noqa: ARG001
    """Writes the coordinates alone: the format has no names for anything else."""
    np.save(path, points)
