"""LAS, LAZ and COPC, of the optional extra `las`: dimensions by laspy, compression by lazrs."""

import os
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from farpoint._types import Array
from farpoint.io.budget import check_budget
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.files import require
from farpoint.io.formats.las_frame import Frame, read_frame
from farpoint.io.numbers import decode
from farpoint.io.records import free_name

# PDAL writes other formats as LAS.
WRITES_OWN = True
# Points whose coordinates are computed at a time, in the cache.
_BLOCK = 1 << 16
# float64 holds coordinates on Earth with so many digits behind the point.
_MAX_DIGITS = 8
_COORDINATES = ("X", "Y", "Z")
_EXTRA_BYTES, _EXTRA_BYTES_SIZE = ("LASF_Spec", 4), 192
_WKT, _GEO_KEYS = ("LASF_Projection", 2112), ("LASF_Projection", 34735)
# Keys and codes of GeoTIFF.
_MODEL_KEY, _PROJECTED_UNIT_KEY, _PROJECTED_KEY = 1024, 3076, 3072
_UNITS = {9001: "metre", 9002: "foot", 9003: "US survey foot"}
_GEOGRAPHIC = 2
# UTM zones of WGS 84, NAD 83 and ETRS 89: in metres without saying so.
_METRIC_CODES = (range(32601, 32761), range(26901, 26924), range(25828, 25839))


@dataclass(frozen=True)
class LasSource:
    """The points as laspy holds them, and the bytes around them."""

    points: Any
    frame: Frame
    lost: list[str]
    """What stands in another file."""

    def save(self, path: Path, rows: Rows) -> list[str]:
        """Writes the points between the bytes that stood around them; .laz is compressed."""
        frame, chosen = self.frame.without_octree(), self.points[rows]
        data = np.frombuffer(chosen.array.tobytes(), np.uint8)
        laz = None
        if path.suffix.lower() == ".laz":
            extra = chosen.point_format.num_extra_bytes
            lazrs = require("lazrs", "LAZ", "las")
            laz = lazrs.LazVlr.new_for_compression(frame.point_format, extra)
        laszip = None if laz is None else laz.record_data()
        with path.open("w+b") as file:
            file.write(frame.render(laszip))
            if laz is None:
                data.tofile(file)
            else:
                _pack(lazrs, laz, file, data)
            tail_at = file.tell()
            file.write(frame.tail)
            file.seek(0)
            returns, bounds = np.asarray(chosen["return_number"]), _bounds(chosen)
            file.write(frame.render(laszip, tail_at=tail_at, returns=returns, bounds=bounds))
        return self.lost + ["the octree of COPC"] * (frame is not self.frame)


def _pack(lazrs: Any, laz: Any, file: BinaryIO, data: Array) -> None:
    """Writes compressed points, and reads them again.

    lazrs 0.8 changes offsets of waveforms where points of format 9 or 10 have several channels.
    """
    begin = file.tell()
    compressor = lazrs.ParLasZipCompressor(file, laz)
    compressor.compress_many(data)
    compressor.done()
    file.seek(begin)
    found = np.empty_like(data)
    lazrs.ParLasZipDecompressor(file, laz.record_data()).decompress_many(found)
    if not np.array_equal(found, data):
        raise ValueError("lazrs does not keep these points: name the output .las")
    file.seek(0, os.SEEK_END)


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a file: scaled float64 coordinates, and every other dimension by its LAS name."""
    laspy = require("laspy", "LAS", "las")
    frame = read_frame(path)
    # The records, their coordinates, and the dimensions that are packed or scaled.
    check_budget(frame.points * (2 * frame.point_bytes + 24), f"{frame.points} points")
    kind = _point_format(laspy, frame)
    scales, offsets = (np.array(frame.unpack("3d", at)) for at in (131, 155))
    records = _read_records(path, frame, kind.dtype())
    points = laspy.ScaleAwarePointRecord(records, kind, scales, offsets)
    names = [name for name in kind.dimension_names if name not in _COORDINATES]
    columns = {name: np.asarray(points[name]) for name in names}
    packets = f"the waveform packets {frame.waveforms}"
    lost = [packets] if frame.waveforms == "in another file" else []
    notes = (f"{'left out' if lost else 'not an attribute'}: {packets}",) * bool(frame.waveforms)
    source = LasSource(points, frame, lost)
    coordinates, crs = _scaled(points), _wkt(frame)
    return Cloud(coordinates, columns, source, crs=crs, unit=_unit(frame), notes=notes)


def _point_format(laspy: Any, frame: Frame) -> Any:
    """The dimensions of the points; bytes that no record describes are `ExtraBytes`."""
    if frame.point_format > 10:
        raise ValueError(f"the point format is {frame.point_format}, expected 0 to 10")
    made = laspy.PointFormat(frame.point_format)
    described = frame.find(_EXTRA_BYTES) or b""
    for at in range(0, len(described) - _EXTRA_BYTES_SIZE + 1, _EXTRA_BYTES_SIZE):
        if made.size < frame.point_bytes:
            entry = laspy.vlrs.known.ExtraBytesStruct.from_buffer_copy(described, at)
            name = free_name(decode(entry.name) or "extra", set(made.dimension_names))
            made.add_extra_dimension(
                laspy.ExtraBytesParams(
                    name, entry.dtype(), offsets=entry.offset, scales=entry.scale
                )
            )
    rest = frame.point_bytes - made.size
    if rest < 0:
        raise ValueError(
            f"the header has points of {frame.point_bytes} bytes, "
            f"those of format {frame.point_format} have {made.size}"
        )
    if rest:
        made.add_extra_dimension(laspy.ExtraBytesParams("ExtraBytes", f"{rest}u1"))
    return made


def _read_records(path: Path, frame: Frame, dtype: np.dtype[Any]) -> Array:
    with path.open("rb") as stream:
        stream.seek(frame.begin)
        if frame.laszip is None or not frame.points:
            return np.fromfile(stream, dtype, frame.points)
        lazrs = require("lazrs", "LAZ", "las")
        size = lazrs.LazVlr(frame.laszip).item_size()
        if size != dtype.itemsize:
            raise ValueError(f"packed points of {size} bytes, in the header {dtype.itemsize}")
        records = np.empty(frame.points, dtype)
        lazrs.ParLasZipDecompressor(stream, frame.laszip).decompress_many(records.view(np.uint8))
        return records


def _scaled(points: Any) -> Array:
    """(N, 3) float64."""
    made = np.empty((len(points), 3))
    digits = [_digits(*pair) for pair in zip(points.scales, points.offsets, strict=True)]
    for at in range(0, len(made), _BLOCK):
        part = slice(at, at + _BLOCK)
        for i, axis in enumerate(_COORDINATES):
            moved = points.array[axis][part] * points.scales[i] + points.offsets[i]
            # 849393.95 and not 849393.9500000001: the number that the file means.
            made[part, i] = moved if digits[i] is None else moved.round(digits[i])
    return made


def _digits(*numbers: float) -> int | None:
    """Decimal digits that all numbers need; None if they are too many."""
    needed = max(-int(Decimal(repr(float(n))).normalize().as_tuple().exponent) for n in numbers)
    return max(needed, 0) if needed <= _MAX_DIGITS else None


def _bounds(points: Any) -> list[float]:
    """High and low of x, y and z; zeros of no points."""
    scaled = _scaled(points) if len(points) else np.zeros((1, 3))
    pairs = zip(scaled.max(axis=0), scaled.min(axis=0), strict=True)
    return [float(bound) for pair in pairs for bound in pair]


def _wkt(frame: Frame) -> str | None:
    """The WKT record; None if the file has none."""
    return decode(frame.find(_WKT) or b"").strip("\0 ") or None


def _unit(frame: Frame) -> str | None:
    """The unit of x and y, if the file names one."""
    wkt, found = _wkt(frame), frame.find(_GEO_KEYS) or b""
    if wkt is not None:
        return _unit_of_wkt(wkt)
    table = np.frombuffer(found[: len(found) // 8 * 8], "<u2").reshape(-1, 4)[1:]
    keys = dict(table[:, [0, 3]].tolist())
    if keys.get(_MODEL_KEY) == _GEOGRAPHIC:
        return "degree"
    code = keys.get(_PROJECTED_KEY, 0)
    if _PROJECTED_UNIT_KEY not in keys and any(code in codes for codes in _METRIC_CODES):
        return "metre"
    return _UNITS.get(keys.get(_PROJECTED_UNIT_KEY, 0))


def _unit_of_wkt(wkt: str) -> str | None:
    """The unit of a projected system, "degree" of a geographic one."""
    horizontal = re.split(r",\s*(?:VERT_CS|VERTCRS|VERTCS)\s*\[", wkt)[0]
    if not re.search(r"\b(PROJCS|PROJCRS)\s*\[", horizontal):
        return "degree" if re.search(r"\b(GEOGCS|GEOGCRS)\s*\[", horizontal) else None
    units: list[str] = re.findall(r'\b(?:LENGTH)?UNIT\s*\[\s*"([^"]+)"', horizontal)
    return units[-1].replace("meter", "metre") if units else None
