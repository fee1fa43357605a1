"""PCD of the Point Cloud Library: ascii, binary and binary_compressed."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from farpoint._arrays import Array
from farpoint.io import lzf, pcd_header
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.pcd_header import Field, Header
from farpoint.io.records import columns_of, join_columns, split_records


@dataclass(frozen=True)
class PcdSource:
    """The header and one record per point."""

    header: Header
    records: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all fields; a compressed file becomes a binary one."""
        ascii_ = self.header.encoding == "ascii"
        header = replace(self.header, points=len(rows), encoding="ascii" if ascii_ else "binary")
        chosen = self.records[rows]
        body = _render_ascii(chosen) if ascii_ else chosen.tobytes()
        path.write_bytes(pcd_header.render(header) + body)


def read(path: Path) -> Cloud:
    """Reads a file; `rgb` is unpacked to (N, 3) uint8, all other fields stay as they are."""
    data = path.read_bytes()
    header, begin = pcd_header.parse(data)
    decoders = {"ascii": _ascii, "binary": _binary, "binary_compressed": _compressed}
    if header.encoding not in decoders:
        raise ValueError(f"DATA is {header.encoding!r}, expected {', '.join(decoders)}")
    records = decoders[header.encoding](data[begin:], header)
    points, attributes = split_records(records)
    visible = {name: values for name, values in attributes.items() if not name.startswith("_")}
    for name in {"rgb", "rgba"} & set(visible):
        visible[name] = _unpack_color(visible[name], len(name))
    return Cloud(points, visible, PcdSource(header, records))


def _ascii(body: bytes, header: Header) -> Array:
    rows = [line.split() for line in body.splitlines() if line.strip()]
    width = sum(field.count for field in header.fields)
    _check_size(len(rows), header.points, "lines")
    odd = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if odd is not None:
        raise ValueError(f"point {odd} has {len(rows[odd])} values, expected {width}")
    records = np.empty(len(rows), header.dtype)
    columns = np.array(rows, dtype=bytes).reshape(len(rows), width)
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        values = columns[:, at : at + field.count].astype(field.dtype.base)
        records[name] = values[:, 0] if field.count == 1 else values
        at += field.count
    return records


def _binary(body: bytes, header: Header) -> Array:
    _check_size(len(body), header.points * header.dtype.itemsize, "bytes")
    return np.frombuffer(body, header.dtype)


def _compressed(body: bytes, header: Header) -> Array:
    """Two sizes, then the fields one after the other, each for all points."""
    if len(body) < 8:
        raise ValueError("the compressed data is cut short")
    packed, size = (int(n) for n in np.frombuffer(body, "<u4", 2))
    _check_size(size, header.points * header.dtype.itemsize, "bytes")
    if body[8 + packed :].strip(b"\0"):  # PCL itself leaves zeros there
        raise ValueError(f"bytes are left over after {packed} compressed ones")
    plain = lzf.decompress(body[8 : 8 + packed], size)
    records = np.empty(header.points, header.dtype)
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        records[name] = np.frombuffer(plain, field.dtype, header.points, at)
        at += field.dtype.itemsize * header.points
    return records


def _check_size(found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise ValueError(f"expected {expected} {unit} of points, got {found}")


def _unpack_color(packed: Array, channels: int) -> Array:
    """(N, 3) or (N, 4) uint8 from 0xAARRGGBB, which files keep as float, int or unsigned."""
    if packed.dtype.itemsize != 4 or packed.ndim != 1:
        return packed
    blue_first = np.ascontiguousarray(packed).view(np.uint8).reshape(-1, 4)
    return blue_first[:, [2, 1, 0, 3][:channels]]


def _render_ascii(records: Array) -> bytes:
    columns = [records[name].reshape(len(records), -1) for name in records.dtype.names or ()]
    text = [column.astype(str) for column in columns]
    rows = np.concatenate(text, axis=1)
    return "".join(" ".join(row) + "\n" for row in rows).encode()


def write(path: Path, points: Array, attributes: dict[str, Array]) -> None:
    """Writes a binary PCD with one field per column."""
    records = join_columns(columns_of(points, attributes))
    types = [records.dtype[name] for name in records.dtype.names or ()]
    fields = tuple(
        Field(name, dtype.kind.upper(), dtype.itemsize, 1)
        for name, dtype in zip(records.dtype.names or (), types, strict=True)
    )
    header = Header(fields, len(records), "binary", "0 0 0 1 0 0 0")
    PcdSource(header, records).save(path, np.arange(len(records)))
