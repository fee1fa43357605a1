"""LAS, LAZ and COPC through laspy, the optional extra `las`."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farpoint._types import Array
from farpoint.io.budget import check_budget, fits_in_budget
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.columns import LazyColumns
from farpoint.io.extras import require
from farpoint.io.formats.las.crs import unit_of, wkt_of
from farpoint.io.formats.las.header import LasHeader, check_header
from farpoint.io.formats.las.write import write_cloud
from farpoint.io.options import ReadOptions

if TYPE_CHECKING:
    from laspy import LasData

# Points whose coordinates are computed at a time, in the cache.
_BLOCK = 1 << 16
_OLDEST_WRITTEN = "1.2"
_COORDINATES = ("X", "Y", "Z")


@dataclass(frozen=True)
class LasSource:
    """The file as laspy holds it."""

    las: "LasData"

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the points with every dimension, scaled as in the file; .laz is compressed.

        LAS 1.0 becomes 1.2, which nothing is lost to.
        """
        laspy = require("laspy", "LAS", "las")
        header = copy.deepcopy(self.las.header)
        # The octree of a COPC file describes points that are not there any more.
        header.vlrs[:] = [vlr for vlr in header.vlrs if vlr.user_id != "copc"]
        if str(header.version) not in laspy.supported_versions():
            header.version = laspy.header.Version.from_str(_OLDEST_WRITTEN)
        chosen = laspy.LasData(header, self.las.points[rows].copy())
        if self.las.evlrs:
            chosen.evlrs = type(self.las.evlrs)(v for v in self.las.evlrs if v.user_id != "copc")
        chosen.write(str(path))


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a file: scaled float64 coordinates, and every other dimension by its LAS name."""
    laspy = require("laspy", "LAS", "las")
    header = check_header(path)
    check_budget(_needed_bytes(header), f"{header.points} points")
    las = laspy.read(str(path))
    if len(las.points) != las.header.point_count:
        raise ValueError(f"{las.header.point_count} points announced, {len(las.points)} found")
    return cloud_of(las)


def fits_in_memory(path: Path) -> bool:
    """Whether a file can be read whole."""
    return fits_in_budget(_needed_bytes(check_header(path)))


def _needed_bytes(header: LasHeader) -> int:
    """For the records and their coordinates."""
    return header.points * (header.record_bytes + 24)


def cloud_of(las: "LasData") -> Cloud:
    """The cloud of points that laspy holds; other dimensions are unpacked when asked for."""
    names = [n for n in las.point_format.dimension_names if n not in _COORDINATES]
    points = np.empty((len(las.points), 3))
    for at in range(0, len(points), _BLOCK):
        part = slice(at, at + _BLOCK)
        for i, axis in enumerate(_COORDINATES):
            scaled = las.points.array[axis][part] * las.header.scales[i]
            points[part, i] = scaled + las.header.offsets[i]
    columns = LazyColumns(names, lambda name: np.asarray(las[name]))
    return Cloud(points, columns, LasSource(las), crs=wkt_of(las), unit=unit_of(las))


@dataclass(frozen=True)
class LasChunks:
    """The points of a file, a part at a time."""

    path: Path
    count: int

    def chunks(self, size: int) -> Iterator[Array]:
        """Scaled coordinates (size, 3), float64, in the order of the file."""
        for _, las in self._parts(size):
            yield cloud_of(las).points

    def gather(self, rows: Rows, size: int) -> Cloud:
        """These rows, with every dimension."""
        laspy = require("laspy", "LAS", "las")
        order = np.argsort(rows, kind="stable")
        found: list[Any] = []
        las = None
        for begin, las in self._parts(size):
            low, high = np.searchsorted(rows[order], (begin, begin + len(las.points)))
            found.append(las.points.array[rows[order[low:high]] - begin])
        assert las is not None  # a file of chunks has points
        records = np.empty(len(rows), found[0].dtype)
        records[order] = np.concatenate(found)
        header = las.header
        points = laspy.ScaleAwarePointRecord(
            records, header.point_format, scales=header.scales, offsets=header.offsets
        )
        return cloud_of(laspy.LasData(header, points))

    def _parts(self, size: int) -> Iterator[tuple[int, Any]]:
        laspy = require("laspy", "LAS", "las")
        at = 0
        with laspy.open(str(self.path)) as reader:
            for points in reader.chunk_iterator(size):
                yield at, laspy.LasData(reader.header, points)
                at += len(points)
        if at != self.count:
            raise ValueError(f"{self.count} points announced, {at} found")


def open_chunks(path: Path, options: ReadOptions) -> LasChunks:  # noqa: ARG001
    """The points of a file without having them all in memory."""
    return LasChunks(path, check_header(path).points)


def write(path: Path, cloud: Cloud) -> None:
    """Writes a cloud of any format as LAS 1.4."""
    write_cloud(path, cloud)
