"""PCD of the Point Cloud Library: ascii, binary and binary_compressed."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import content_lines, parse_table
from farpoint.io.records import columns_of, join_columns, split_records, unpack_color

_KEYWORDS = {
    *("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT"),
    *("VIEWPOINT", "POINTS", "DATA"),
}


@dataclass(frozen=True)
class Field:
    """One field of a point, from the lines FIELDS, TYPE, SIZE and COUNT."""

    name: str
    kind: str
    size: int
    count: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of the field, (count,) if it has several values."""
        letters = {"F": "f", "I": "i", "U": "u"}
        if self.kind not in letters:
            raise ValueError(f"field {self.name} has type {self.kind}, expected F, I or U")
        return np.dtype((f"<{letters[self.kind]}{self.size}", (self.count,) * (self.count > 1)))


@dataclass(frozen=True)
class Header:
    """The header lines."""

    fields: tuple[Field, ...]
    points: int
    encoding: str
    viewpoint: str = "0 0 0 1 0 0 0"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of one point; padding fields, all named `_`, get numbers."""
        names = [f"_{i}" if f.name == "_" else f.name for i, f in enumerate(self.fields)]
        return np.dtype([(n, f.dtype) for n, f in zip(names, self.fields, strict=True)])

    def render(self) -> bytes:
        """The header lines in version 0.7, for an unorganized cloud."""
        rows = ((f.name, f"{f.size}", f.kind, f"{f.count}") for f in self.fields)
        columns = zip(*rows, strict=True)
        fields, sizes, kinds, counts = map(" ".join, columns)
        return (
            f"VERSION 0.7\nFIELDS {fields}\nSIZE {sizes}\nTYPE {kinds}\nCOUNT {counts}\n"
            f"WIDTH {self.points}\nHEIGHT 1\nVIEWPOINT {self.viewpoint}\nPOINTS {self.points}\n"
            f"DATA {self.encoding}\n"
        ).encode()


@dataclass(frozen=True)
class PcdSource:
    """The header and one record per point."""

    header: Header
    records: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all fields, as text if the file is text, else binary."""
        is_text = self.header.encoding == "ascii"
        encoding = "ascii" if is_text else "binary"
        header = replace(self.header, points=len(rows), encoding=encoding)
        chosen = self.records[rows]
        path.write_bytes(header.render() + (_as_text(chosen) if is_text else chosen.tobytes()))


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a file; `rgb` is unpacked to (N, 3) uint8, all other fields stay as they are."""
    data = path.read_bytes()
    header, begin = _parse_header(data)
    decoders = {"ascii": _ascii, "binary": _binary, "binary_compressed": _compressed}
    if header.encoding not in decoders:
        raise ValueError(f"DATA is {header.encoding!r}, expected {', '.join(decoders)}")
    records = decoders[header.encoding](data[begin:], header)
    points, attributes = split_records(records)
    visible = {name: values for name, values in attributes.items() if not name.startswith("_")}
    return Cloud(points, unpack_color(visible), PcdSource(header, records))


def _parse_header(data: bytes) -> tuple[Header, int]:
    """The header, and the offset of the points."""
    values: dict[str, str] = {}
    at = 0
    while "DATA" not in values:
        end = data.find(b"\n", at)
        if end < 0:
            raise ValueError("no DATA line")
        keyword, _, rest = data[at:end].decode("ascii", "replace").strip().partition(" ")
        if keyword.upper() in _KEYWORDS:
            values[keyword.upper()] = rest.strip()
        elif keyword and not keyword.startswith("#"):
            raise ValueError(f"unknown header line {keyword[:40]!r}")
        at = end + 1
    area = int(values.get("WIDTH", 0)) * int(values.get("HEIGHT", 1))
    points = int(values.get("POINTS", area))
    if "WIDTH" in values and points != area:
        raise ValueError(f"POINTS is {points}, but WIDTH times HEIGHT is {area}")
    viewpoint = values.get("VIEWPOINT", Header.viewpoint)
    return Header(_parse_fields(values), points, values["DATA"].lower(), viewpoint), at


def _parse_fields(values: dict[str, str]) -> tuple[Field, ...]:
    # COLUMNS is FIELDS before version 0.7.
    names = (values.get("FIELDS") or values.get("COLUMNS") or "").split()
    sizes = values.get("SIZE", "4 " * len(names)).split()
    kinds = values.get("TYPE", "F " * len(names)).split()
    counts = values.get("COUNT", "1 " * len(names)).split()
    if not names or not len(names) == len(sizes) == len(kinds) == len(counts):
        raise ValueError(f"{len(names)} FIELDS, {len(sizes)} SIZE, {len(kinds)} TYPE values")
    rows = zip(names, kinds, sizes, counts, strict=True)
    return tuple(Field(n, kind.upper(), int(size), int(count)) for n, kind, size, count in rows)


def _ascii(body: bytes, header: Header) -> Array:
    lines = content_lines(body)
    _check_size(len(lines), header.points, "lines")
    records = np.empty(len(lines), header.dtype)
    if not lines:
        return records
    values = parse_table(lines)
    width = sum(field.count for field in header.fields)
    if values.shape[1] != width:
        raise ValueError(f"point 0 has {values.shape[1]} values, expected {width}")
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        part = values[:, at : at + field.count]
        if field.kind != "F" and field.size == 8:  # float64 ends at 2^53
            cells = (line.split()[at : at + field.count] for line in lines)
            part = np.array([[int(cell) for cell in row] for row in cells])
        records[name] = part[:, 0] if field.count == 1 else part
        at += field.count
    return records


def _binary(body: bytes, header: Header) -> Array:
    size = header.points * header.dtype.itemsize
    if not body[size:].strip(b"\0"):  # PCL fills its files up to a whole page
        body = body[:size]
    _check_size(len(body), size, "bytes")
    return np.frombuffer(body, header.dtype)


def _compressed(body: bytes, header: Header) -> Array:
    """Reads compressed data: two sizes, then the fields, each for all points."""
    if len(body) < 8:
        raise ValueError("the compressed data is cut short")
    packed, size = (int(n) for n in np.frombuffer(body, "<u4", 2))
    padding = sum(field.dtype.itemsize for field in header.fields if field.name == "_")
    has_padding = not padding or size != header.points * (header.dtype.itemsize - padding)
    if has_padding:  # PCL names it and leaves it out
        _check_size(size, header.points * header.dtype.itemsize, "bytes")
    if body[8 + packed :].strip(b"\0"):  # PCL itself leaves zeros there
        raise ValueError(f"bytes are left over after {packed} compressed ones")
    plain = decompress(body[8 : 8 + packed], size)
    records = np.zeros(header.points, header.dtype)
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        if field.name != "_" or has_padding:
            records[name] = np.frombuffer(plain, field.dtype, header.points, at)
            at += field.dtype.itemsize * header.points
    return records


def _check_size(found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise ValueError(f"expected {expected} {unit} of points, got {found}")


def _as_text(records: Array) -> bytes:
    columns = [records[name].reshape(len(records), -1) for name in records.dtype.names or ()]
    rows = np.concatenate([column.astype(str) for column in columns], axis=1)
    return "".join(" ".join(row) + "\n" for row in rows).encode()


def write(path: Path, cloud: Cloud) -> None:
    """Writes a binary PCD with one field per column."""
    records = join_columns(columns_of(cloud.points, cloud.attributes))
    types = {name: records.dtype[name] for name in records.dtype.names or ()}
    fields = (Field(n, dtype.kind.upper(), dtype.itemsize, 1) for n, dtype in types.items())
    header = Header(tuple(fields), len(records), "binary")
    PcdSource(header, records).save(path, np.arange(len(records)))


def decompress(data: bytes, size: int) -> bytes:
    """Decompresses `data` to `size` bytes by LZF (M. Lehmann, liblzf)."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            control = data[at]
            at += 1
            if control < 32:
                out += data[at : at + control + 1]
                at += control + 1
            else:
                length, at = _length(data, control, at)
                _repeat(out, ((control & 31) << 8) + data[at] + 1, length)
                at += 1
    except IndexError as error:
        raise ValueError("the compressed data is cut short") from error
    if len(out) != size or at != len(data):
        raise ValueError(f"the compressed data gives {len(out)} bytes, expected {size}")
    return bytes(out)


def _length(data: bytes, control: int, at: int) -> tuple[int, int]:
    """Number of bytes to repeat, and the position after it."""
    length = control >> 5
    if length == 7:
        return length + data[at] + 2, at + 1
    return length + 2, at


def _repeat(out: bytearray, distance: int, length: int) -> None:
    """Appends `length` bytes from `distance` before the end; they may overlap."""
    begin = len(out) - distance
    if begin < 0:
        raise ValueError("the compressed data points before its own start")
    if distance >= length:
        out += out[begin : begin + length]
    else:
        pattern = out[begin:]
        out += (pattern * (length // distance + 1))[:length]
