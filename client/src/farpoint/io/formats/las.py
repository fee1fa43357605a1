"""LAS, LAZ and COPC through laspy, the optional extra `las`."""

import copy
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from farpoint.io.budget import check_budget
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.files import require

if TYPE_CHECKING:
    from laspy import LasData

# PDAL writes other formats as LAS.
WRITES_OWN = True
# Points whose coordinates are computed at a time, in the cache.
_BLOCK = 1 << 16
_OLDEST_WRITTEN = "1.2"
# Of the day and the year of creation, two bytes each.
_DATE_AT = 90
# float64 holds coordinates on Earth with so many digits behind the point.
_MAX_DIGITS = 8
_COORDINATES = ("X", "Y", "Z")
_WKT_RECORD, _GEO_KEYS_RECORD = 2112, 34735
# Keys and codes of GeoTIFF.
_MODEL_KEY, _PROJECTED_UNIT_KEY, _PROJECTED_KEY = 1024, 3076, 3072
_UNITS = {9001: "metre", 9002: "foot", 9003: "US survey foot"}
_GEOGRAPHIC = 2
# UTM zones of WGS 84, NAD 83 and ETRS 89: in metres without saying so.
_METRIC_CODES = (range(32601, 32761), range(26901, 26924), range(25828, 25839))
# Of headers, which are checked against the file before laspy reads it.
_SIGNATURE = b"LASF"
_SHORTEST_HEADER = 227
_VLR_BYTES, _EVLR_BYTES = 54, 60
_LASZIP_RECORD = 22204
_CHUNKED_COMPRESSORS = (2, 3)
_VARIABLE_CHUNKS = 0xFFFFFFFF


@dataclass(frozen=True)
class LasSource:
    """The file as laspy holds it."""

    las: "LasData"

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the points with every dimension, scaled as in the file; .laz is compressed.

        LAS 1.0 becomes 1.2, without loss.
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
        has_date = header.creation_date is not None
        chosen.write(str(path))
        if not has_date:  # laspy writes the day of today
            with path.open("r+b") as file:
                file.seek(_DATE_AT)
                file.write(bytes(4))


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a file: scaled float64 coordinates, and every other dimension by its LAS name."""
    laspy = require("laspy", "LAS", "las")
    points, record_bytes = _check_header(path)
    # The records, their coordinates, and the dimensions that are packed or scaled.
    check_budget(points * (2 * record_bytes + 24), f"{points} points")
    las = laspy.read(str(path))
    if len(las.points) != las.header.point_count:
        raise ValueError(f"{las.header.point_count} points announced, {len(las.points)} found")
    return _cloud_of(las)


def _cloud_of(las: "LasData") -> Cloud:
    """The cloud of points that laspy holds."""
    names = [n for n in las.point_format.dimension_names if n not in _COORDINATES]
    points = np.empty((len(las.points), 3))
    digits = [_digits(las.header.scales[i], las.header.offsets[i]) for i in range(3)]
    for at in range(0, len(points), _BLOCK):
        part = slice(at, at + _BLOCK)
        for i, axis in enumerate(_COORDINATES):
            scaled = las.points.array[axis][part] * las.header.scales[i]
            moved = scaled + las.header.offsets[i]
            # 849393.95 and not 849393.9500000001: the number that the file means.
            points[part, i] = moved if digits[i] is None else moved.round(digits[i])
    columns = {name: np.asarray(las[name]) for name in names}
    return Cloud(points, columns, LasSource(las), crs=_wkt(las), unit=_unit(las))


def _digits(*numbers: float) -> int | None:
    """Decimal digits that all numbers need; None if they are too many."""
    needed = max(-int(Decimal(repr(float(n))).normalize().as_tuple().exponent) for n in numbers)
    return max(needed, 0) if needed <= _MAX_DIGITS else None


def _wkt(las: "LasData") -> str | None:
    """The WKT record; None if the file has none."""
    for record in _records(las, _WKT_RECORD):
        return str(getattr(record, "string", "")).strip("\0 ") or None
    return None


def _unit(las: "LasData") -> str | None:
    """The unit of x and y, if the file names one."""
    wkt = _wkt(las)
    if wkt is not None:
        return _unit_of_wkt(wkt)
    for record in _records(las, _GEO_KEYS_RECORD):
        keys = {key.id: key.value_offset for key in getattr(record, "geo_keys", ())}
        if keys.get(_MODEL_KEY) == _GEOGRAPHIC:
            return "degree"
        code = keys.get(_PROJECTED_KEY, 0)
        if _PROJECTED_UNIT_KEY not in keys and any(code in codes for codes in _METRIC_CODES):
            return "metre"
        return _UNITS.get(keys.get(_PROJECTED_UNIT_KEY, 0))
    return None


def _unit_of_wkt(wkt: str) -> str | None:
    """The unit of a projected system, "degree" of a geographic one."""
    horizontal = re.split(r",\s*(?:VERT_CS|VERTCRS|VERTCS)\s*\[", wkt)[0]
    if not re.search(r"\b(PROJCS|PROJCRS)\s*\[", horizontal):
        return "degree" if re.search(r"\b(GEOGCS|GEOGCRS)\s*\[", horizontal) else None
    units: list[str] = re.findall(r'\b(?:LENGTH)?UNIT\s*\[\s*"([^"]+)"', horizontal)
    return units[-1].replace("meter", "metre") if units else None


def _records(las: "LasData", number: int) -> list[Any]:
    records = (*las.header.vlrs, *(las.evlrs or ()))
    return [r for r in records if (r.user_id, r.record_id) == ("LASF_Projection", number)]


def _check_header(path: Path) -> tuple[int, int]:
    """Checks a header without decompression; the number of points and the bytes of each record."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(375).ljust(375, b"\0")
        if not head.startswith(_SIGNATURE) or size < _SHORTEST_HEADER:
            raise ValueError(
                "no LAS header: expected LASF in the first bytes and 227 bytes or more"
            )
        header_bytes, begin, records = struct.unpack_from("<HII", head, 94)
        kind, record_bytes, points = struct.unpack_from("<BHI", head, 104)
        if not _SHORTEST_HEADER <= header_bytes <= begin <= size:
            raise ValueError(
                f"the header has {header_bytes} bytes, points begin at {begin}, the file has {size}"
            )
        laszip = _walk_records(stream, header_bytes, begin, records)
        if head[25] >= 4:
            _check_extended(head, size)
            points = struct.unpack_from("<Q", head, 247)[0] or points
        compressed = bool(kind & 0xC0)
        if not compressed and points * record_bytes > size - begin:
            raise ValueError(
                f"{points} points of {record_bytes} bytes announced, {size - begin} bytes are there"
            )
        if compressed and points:
            _check_chunks(stream, size, begin, laszip, points, record_bytes)
    return points, record_bytes


def _walk_records(stream: BinaryIO, at: int, end: int, count: int) -> bytes | None:
    """Checks the variable length records and returns laszip's."""
    if count * _VLR_BYTES > end - at:
        raise ValueError(f"{count} records announced in {end - at} bytes before the points")
    laszip = None
    for i in range(count):
        stream.seek(at)
        record, length = struct.unpack("<HH", stream.read(_VLR_BYTES)[18:22])
        at += _VLR_BYTES + length
        if at > end:
            raise ValueError(f"record {i} of {count} ends at {at}, the points begin at {end}")
        if record == _LASZIP_RECORD:
            laszip = stream.read(length)
    return laszip


def _check_extended(head: bytes, size: int) -> None:
    begin, count = struct.unpack_from("<QI", head, 235)
    if count and not 0 < begin <= size - count * _EVLR_BYTES:
        raise ValueError(
            f"{count} extended records announced at {begin}, the file has {size} bytes"
        )


def _check_chunks(
    stream: BinaryIO, size: int, begin: int, laszip: bytes | None, points: int, record_bytes: int
) -> None:
    """Checks the number of chunks, each of which begins with a whole point."""
    if laszip is None or len(laszip) < 34:
        raise ValueError("the points are compressed, and the record of laszip is missing")
    if struct.unpack_from("<H", laszip)[0] not in _CHUNKED_COMPRESSORS:
        raise ValueError("the points were packed by a laszip before version 2, expected 2 or later")
    chunk_points = struct.unpack_from("<I", laszip, 12)[0]
    stream.seek(begin)
    at = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))[0]
    if at == -1:  # written as a stream: the position comes last
        stream.seek(size - 8)
        at = struct.unpack("<q", stream.read(8))[0]
    if not begin + 8 <= at <= size - 8:
        raise ValueError(f"the table of chunks is announced at {at}, the file has {size} bytes")
    stream.seek(at + 4)
    chunks = struct.unpack("<I", stream.read(4))[0]
    if chunks * record_bytes > size - begin:
        raise ValueError(f"{chunks} chunks announced in {size - begin} bytes")
    if chunk_points != _VARIABLE_CHUNKS and chunks * chunk_points < points:
        raise ValueError(f"{points} points announced in {chunks} chunks of {chunk_points}")
