"""Cloud files: read a cloud, write some of its rows with all that the file knew about them.

    cloud = farpoint.io.read_cloud("scan.laz")
    sample = client.sample(cloud.points, 1024)
    farpoint.io.write_subset("sampled.laz", cloud, sample.indices)

Read: .npy .npz .ply .pcd .bin (KITTI, nuScenes) .xyz .txt .csv .pts .obj .off .stl .vtk .vtp; with
the extra `las` .las .laz; with the extra `io` also .e57 .parquet .mcap .db3 .bag. What each keeps
is in docs/files.md. A name that ends in .indices.npy gets the int64 row indices.
"""

import os
from pathlib import Path
from types import ModuleType

import numpy as np

from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io.atomic import replacing
from farpoint.io.cloud import Chunks, Cloud, Rows
from farpoint.io.failures import naming
from farpoint.io.options import ReadOptions
from farpoint.io.registry import COPC_SUFFIX, INDICES_SUFFIX, SUFFIXES, format_of

__all__ = ["INDICES_SUFFIX", "SUFFIXES", "Cloud", "ReadOptions", "read_cloud", "write_subset"]


def read_cloud(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    columns: tuple[str, ...] | None = None,
    array: str | None = None,
    topic: str | None = None,
    message: int = 0,
) -> Cloud:
    """The cloud in a file; the suffix says the format.

    Args:
        path: a file, or the folder of a rosbag2 recording.
        format: the suffix to go by instead, for example ".laz".
        columns: names of the columns of a `.bin`, a plain array or a text without names, with x,
            y and z among them.
        array: the array of an `.npz` that holds the points, where it is not obvious.
        topic: the topic of a recording that holds the clouds; None where there is only one.
        message: which cloud of that topic, from 0.

    Raises:
        CloudFileError: unknown suffix, no such file, damaged, not read to the last byte, or
            without points.
        InvalidArgumentError: `columns` without x, y and z.
    """
    try:
        options = ReadOptions(format, columns, array, topic, message)
    except ValueError as error:
        raise InvalidArgumentError(str(error), field="columns") from error
    return read_with(Path(path), options)


def read_with(path: Path, options: ReadOptions) -> Cloud:
    """As `read_cloud`, with the options in one."""
    with naming(path):
        suffix = options.format or (".db3" if path.is_dir() else None)
        cloud: Cloud = format_of(path, suffix).load().read(path, options)
        if not len(cloud):
            raise ValueError("the file holds 0 points")
        return cloud


def open_chunks(path: Path, options: ReadOptions, most_points: int) -> Chunks | None:
    """The points of a LAS, LAZ, COPC or NPY file to be read in parts.

    Returns:
        None where the file has no more than `most_points` and fits in memory, or its format is
        read whole.

    Raises:
        CloudFileError: as `read_cloud`.
    """
    with naming(path):
        if path.is_dir():
            return None
        module = format_of(path, options.format).load()
        if not hasattr(module, "open_chunks"):
            return None
        chunks: Chunks | None = module.open_chunks(path, options)
        if chunks is None or (chunks.count <= most_points and module.fits_in_memory(path)):
            return None
        return chunks


def write_subset(path: str | os.PathLike[str], cloud: Cloud, rows: Rows) -> None:
    """Writes the rows of a cloud, in the order given; the suffix says the format.

    In the format that the cloud was read from everything is kept. Any other gets coordinates and
    attributes, except .npy, which gets coordinates. The file is written beside its place and
    renamed, so that it appears whole or not at all.

    Raises:
        CloudFileError: the format is unknown, cannot hold this cloud, or the file cannot be made.
    """
    path = Path(path)
    with naming(path):
        own = type(cloud.source).__module__ if cloud.source is not None else None
        named = path.name.lower().endswith(INDICES_SUFFIX)
        same = not named and own == f"farpoint.io.formats.{format_of(path).module}"
        module = check_writable(path, same_format=same)
        with replacing(path) as part:
            if module is None:
                np.save(part, np.asarray(rows, np.int64))
            elif same and cloud.source is not None:
                cloud.source.save(part, rows)
            else:
                module.write(part, cloud.take(rows))


def check_writable(path: Path, *, same_format: bool) -> ModuleType | None:
    """The module that writes a suffix, None for that of row indices.

    Args:
        path: the file to be.
        same_format: whether the cloud was read from that format.

    Raises:
        CloudFileError: no module writes it, or none for a cloud of another format.
    """
    if path.name.lower().endswith(INDICES_SUFFIX):
        return None
    if path.name.lower().endswith(COPC_SUFFIX):
        raise CloudFileError("COPC is read but not written: name it .laz", path=path)
    module = format_of(path).load()
    if hasattr(module, "write") or (same_format and hasattr(module, "WRITES_OWN")):
        return module
    reason = (
        "only a cloud read from {} can be written so"
        if hasattr(module, "WRITES_OWN")
        else ("{} is read but not written")
    )
    raise CloudFileError(reason.format(path.suffix), path=path)
