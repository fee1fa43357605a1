"""PCD of the Point Cloud Library: ascii, binary and binary_compressed."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.formats.pcd import header as pcd_header
from farpoint.io.formats.pcd import lzf
from farpoint.io.formats.pcd.header import Field, Header
from farpoint.io.formats.text.lines import split_lines
from farpoint.io.formats.text.loose import split_cells
from farpoint.io.formats.text.table import read_table
from farpoint.io.options import ReadOptions
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


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
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
        visible[name] = unpack_color(visible[name], len(name))
    return Cloud(points, visible, PcdSource(header, records))


def _ascii(body: bytes, header: Header) -> Array:
    width = sum(field.count for field in header.fields)
    lines = split_lines(np.frombuffer(body, np.uint8))
    blank = not body.strip()
    _check_size(0 if blank else _count_lines(body), header.points, "lines")
    if blank:
        return np.empty(0, header.dtype)
    table = read_table(lines, None) or split_cells(lines, None)
    if table.width != width:
        raise ValueError(f"point 0 has {table.width} values, expected {width}")
    values = table.numbers()
    records = np.empty(len(values), header.dtype)
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        part = values[:, at : at + field.count]
        if field.kind != "F" and field.size == 8:  # float64 ends at 2^53
            part = np.array(
                [
                    [int(cell) for cell in row[at : at + field.count]]
                    for row in (line.split() for line in body.splitlines())
                    if row
                ]
            )
        records[name] = part[:, 0] if field.count == 1 else part
        at += field.count
    return records


def _count_lines(body: bytes) -> int:
    return sum(1 for line in body.splitlines() if line.strip())


def _binary(body: bytes, header: Header) -> Array:
    size = header.points * header.dtype.itemsize
    if not body[size:].strip(b"\0"):  # PCL fills its files up to a whole page
        body = body[:size]
    _check_size(len(body), size, "bytes")
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


def unpack_color(packed: Array, channels: int) -> Array:
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


def write(path: Path, cloud: Cloud) -> None:
    """Writes a binary PCD with one field per column."""
    records = join_columns(columns_of(cloud.points, cloud.attributes))
    types = [records.dtype[name] for name in records.dtype.names or ()]
    fields = tuple(
        Field(name, dtype.kind.upper(), dtype.itemsize, 1)
        for name, dtype in zip(records.dtype.names or (), types, strict=True)
    )
    header = Header(fields, len(records), "binary", "0 0 0 1 0 0 0")
    PcdSource(header, records).save(path, np.arange(len(records)))
