"""Cloud files: reads a cloud, and writes some of its rows with all their attributes.

    cloud = farpoint.io.read_cloud("scan.laz")
    sample = client.sample(cloud.points, 1024)
    farpoint.io.write_subset("sampled.laz", cloud, sample.indices)

Read: .npy .npz .ply .pcd .bin (float32 rows) .xyz .txt .csv .pts; with the extra `las`
.las .laz; with the extra `io` also .e57 .mcap .db3 .bag. What each keeps is in
docs/files.md. A name that ends in .indices.npy gets the int64 row indices.
"""

import os
import re
from pathlib import Path

import numpy as np

from farpoint.errors import InvalidArgumentError
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.files import check_target, naming, replacing
from farpoint.io.registry import (
    INDICES_SUFFIX,
    SUFFIXES,
    check_writable,
    format_module,
    format_name,
    is_indices,
)

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
    """Reads a cloud from a file; the suffix selects the format.

    Args:
        path: a file, or the folder of a rosbag2 recording.
        format: the suffix to go by instead, for example ".laz".
        columns: names of the columns of a `.bin`, a plain array or a text without names, with x,
            y and z among them.
        array: the array of an `.npz` that holds the points, where it is not obvious.
        topic: the topic of a recording that holds the clouds; None where there is only one.
        message: which cloud of that topic, from 0.

    Raises:
        CloudFileError: unknown suffix, damaged, not read to the last byte, or without points; a
            FileNotFoundError too where there is no such file.
        InvalidArgumentError: `columns` without x, y and z.
    """
    try:
        options = ReadOptions(format, columns, array, topic, message)
    except ValueError as error:
        raise InvalidArgumentError(str(error), field="columns") from error
    return read_with(Path(path), options)


def read_with(path: Path, options: ReadOptions) -> Cloud:
    """Like `read_cloud`, with the options as one object."""
    with naming(path):
        suffix = options.format
        if path.is_dir() and not suffix:
            if not (path / "metadata.yaml").exists():
                raise ValueError("expected a file or a rosbag2 folder with a metadata.yaml")
            suffix = ".db3"
        cloud: Cloud = format_module(path, suffix, to_read=True).read(path, options)
        if not len(cloud):
            raise ValueError("the file holds 0 points")
        return cloud


def write_subset(path: str | os.PathLike[str], cloud: Cloud, rows: Rows) -> tuple[str, ...]:
    """Writes rows of a cloud in the given order; the suffix selects the format.

    In the format that the cloud was read from everything is kept. Any other gets coordinates and
    the attributes that it can hold. The file is written next to its place and renamed, so that it
    appears whole or not at all.

    Returns:
        Notes about what the written file lacks: "left out: ring, intensity".

    Raises:
        CloudFileError: the format is unknown, cannot hold this cloud, or the file cannot be made.
    """
    path = Path(path)
    with naming(path):
        check_target(path)
        own = None if cloud.source is None or is_indices(path) else type(cloud.source).__module__
        suffix = path.suffix.lower()
        is_own = getattr(cloud.source, "suffix", suffix) == suffix
        same = is_own and own is not None and own == format_name(path)
        check_writable(path, same_format=same)
        with replacing(path) as part:
            if is_indices(path):
                np.save(part, np.asarray(rows, np.int64))
            elif same and cloud.source is not None:
                return _left_out(cloud.source.save(part, rows))
            else:
                columns = format_module(path).write(part, cloud.take(rows))
                # Columns of a wide attribute are numbered.
                kept = (n if n in cloud.attributes else re.sub(r"_\d+$", "", n) for n in columns)
                crs = ["the coordinate reference system"] if cloud.crs else []
                return cloud.notes + _left_out([*dict.fromkeys(kept), *crs])
    return ()


def _left_out(names: list[str] | None) -> tuple[str, ...]:
    return (f"left out: {', '.join(names)}",) if names else ()
