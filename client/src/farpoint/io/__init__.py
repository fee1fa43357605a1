"""Cloud files: read a cloud, write some of its rows with all that the file knew about them.

    cloud = farpoint.io.read_cloud("scan.laz")
    sample = client.sample(cloud.points, 1024)
    farpoint.io.write_subset("sampled.laz", cloud, sample.indices)

Read: .npy .npz .ply .pcd .bin (KITTI, nuScenes) .las .laz .xyz .txt .csv .obj. Any of them can be
written back in its own format with every attribute kept; .npy .npz .ply .pcd .xyz .txt and .csv
from any other. A name that ends in .indices.npy gets the int64 row indices.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

from farpoint._arrays import Array
from farpoint.errors import CloudFileError
from farpoint.io import kitti, las, npy, npz, obj, pcd, ply, text
from farpoint.io.cloud import Cloud, Rows

__all__ = ["Cloud", "read_cloud", "write_subset"]

_FORMATS: dict[str, ModuleType] = {
    ".npy": npy,
    ".npz": npz,
    ".ply": ply,
    ".pcd": pcd,
    ".bin": kitti,
    ".las": las,
    ".laz": las,
    ".xyz": text,
    ".txt": text,
    ".csv": text,
    ".obj": obj,
}

INDICES_SUFFIX = ".indices.npy"


def read_cloud(path: str | os.PathLike[str]) -> Cloud:
    """The cloud in a file; the suffix says the format.

    Raises:
        CloudFileError: unknown suffix, no such file, damaged, not read to the last byte, or
            without points.
    """
    path = Path(path)
    read: Callable[[Path], Cloud] = _format(path).read
    with _naming(path):
        cloud = read(path)
        if not len(cloud):
            raise ValueError("the file holds 0 points")
        return cloud


def write_subset(path: str | os.PathLike[str], cloud: Cloud, rows: Rows) -> None:
    """Writes the rows of a cloud, in the order given; the suffix says the format.

    In the format that the cloud was read from everything is kept. Any other gets coordinates and
    attributes, except .npy, which gets coordinates.

    Raises:
        CloudFileError: the format is unknown, cannot hold this cloud, or the file cannot be made.
    """
    path = Path(path)
    with _naming(path):
        if path.name.lower().endswith(INDICES_SUFFIX):
            np.save(path, np.asarray(rows, np.int64))
            return
        module = _format(path)
        if type(cloud.source).__module__ == module.__name__:
            cloud.source.save(path, rows)
            return
        write: Callable[[Path, Array, dict[str, Array]], None] | None
        write = getattr(module, "write", None)
        if write is None:
            raise ValueError(f"only a cloud read from {path.suffix} can be written as such")
        write(path, cloud.points[rows], {k: v[rows] for k, v in cloud.attributes.items()})


def check_suffix(path: Path) -> None:
    """Raises CloudFileError where the suffix names no known format."""
    _format(path)


def _format(path: Path) -> ModuleType:
    module = _FORMATS.get(path.suffix.lower())
    if module is None:
        known = " ".join(_FORMATS)
        raise CloudFileError(f"unknown suffix {path.suffix!r}, expected {known}", path=path)
    return module


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns what goes wrong with a file into an error that names it."""
    try:
        yield
    except CloudFileError:
        raise
    except OSError as error:
        raise CloudFileError(error.strerror or str(error), path=path) from error
    except (ValueError, EOFError) as error:
        raise CloudFileError(str(error), path=path) from error
