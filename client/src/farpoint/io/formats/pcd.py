"""PCD of the Point Cloud Library: ascii, binary and binary_compressed."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._adapters import split_records
from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.numbers import content_lines, decode, head_lines, parse_columns
from farpoint.io.records import columns_of, join_columns, unpack_color

_KEYWORDS = {
    *("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT"),
    *("VIEWPOINT", "POINTS", "DATA"),
}
_SIZES = {"F": "248", "I": "1248", "U": "1248"}
_NO_VIEWPOINT = "0 0 0 1 0 0 0"


@dataclass(frozen=True)
class Field:
    """One field of a point, from the lines FIELDS, TYPE, SIZE and COUNT."""

    name: str
    kind: str
    size: str
    count: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of one value."""
        if self.size not in _SIZES.get(self.kind, ""):
            raise ValueError(
                f"field {self.name} has size {self.size} and type {self.kind}, "
                "expected F of 2, 4 or 8 bytes, or I or U of 1, 2, 4 or 8"
            )
        return np.dtype(f"<{self.kind.lower()}{self.size}")


@dataclass(frozen=True)
class Header:
    """The header lines as they are spelled, and what they say."""

    lines: list[bytes]
    fields: list[Field]
    points: int
    encoding: str
    rest: list[str]
    """Lines that describe no points, in words."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of one point; padding fields, all named `_`, get a name that no field has."""
        names = [f" {i}" if f.name == "_" else f.name for i, f in enumerate(self.fields)]
        kinds = [(f.dtype, (f.count,)) if f.count != 1 else f.dtype for f in self.fields]
        return np.dtype(list(zip(names, kinds, strict=True)))

    def render(self, points: int, encoding: str) -> bytes:
        """The lines with another number of points, unorganized, in this encoding."""
        changed = {"WIDTH": points, "HEIGHT": 1, "POINTS": points}
        values = changed if encoding == self.encoding else {**changed, "DATA": encoding}
        lines = list(self.lines)
        for i, line in enumerate(lines):
            if (value := values.get(_keyword(line))) is not None:
                lines[i] = re.sub(rb"(\S+\s+)\S+", rb"\g<1>%b" % str(value).encode(), line, count=1)
        return b"".join(lines)


@dataclass(frozen=True)
class PcdSource:
    """The header, and the records of the points, or their lines where the file is text."""

    header: Header
    kept: Array | list[bytes]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all fields, as text if the file is text, else binary."""
        if isinstance(self.kept, list):
            body = b"".join(self.kept[row] for row in rows)
            path.write_bytes(self.header.render(len(rows), "ascii") + body)
        else:
            body = self.kept[rows].tobytes()
            path.write_bytes(self.header.render(len(rows), "binary") + body)


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads a file; `rgb` is unpacked to (N, 3) uint8, all other fields stay as they are."""
    data = path.read_bytes()
    header, begin = _parse_header(data)
    decoders = {"binary": _binary, "binary_compressed": _compressed}
    body = data[begin:]
    lines = content_lines(body) if header.encoding == "ascii" else None
    if lines is not None:
        records = _ascii(lines, header)
    elif header.encoding in decoders:
        records = decoders[header.encoding](body, header)
    else:
        raise ValueError(f"DATA is {header.encoding!r}, expected ascii, {', '.join(decoders)}")
    points, fields = split_records(records)
    empty = [f"{f.name} (COUNT 0)" for f in header.fields if not f.count]
    visible = {n: v for n, v in fields.items() if n[0] != " " and 0 not in v.shape[1:]}
    others = ", ".join(empty + header.rest)
    notes = (f"not an attribute: {others}",) if others else ()
    source = PcdSource(header, records if lines is None else lines)
    return Cloud(points, unpack_color(visible), source, notes=notes)


def _keyword(line: bytes) -> str:
    return decode(b"".join(line.split(maxsplit=1)[:1])).upper()


def _parse_header(data: bytes) -> tuple[Header, int]:
    """The header, and the offset of the points."""
    values: dict[str, str] = {}
    lines: list[bytes] = []
    rest: list[str] = []
    for line in head_lines(data):
        lines.append(line)
        keyword = _keyword(line.removeprefix(b"\xef\xbb\xbf"))
        if keyword in _KEYWORDS:
            values[keyword] = " ".join(map(decode, line.split()[1:]))
        elif keyword and not keyword.startswith("#"):
            rest.append(f"the header line {decode(line).strip()[:60]!r}")
        if keyword == "DATA":
            break
    else:
        raise ValueError(f"no DATA line: expected the header of a PCD, got {data[:60]!r}")
    for keyword in ("WIDTH", "HEIGHT", "POINTS"):
        if not values.get(keyword, "0").isdigit():
            raise ValueError(f"{keyword} is {values[keyword]!r}, expected a whole number")
    area = int(values.get("WIDTH", 0)) * int(values.get("HEIGHT", 1))
    points = int(values.get("POINTS", area))
    if "WIDTH" in values and points != area:
        raise ValueError(f"POINTS is {points}, but WIDTH times HEIGHT is {area}")
    if re.sub(r"\.0*\b", "", values.get("VIEWPOINT", _NO_VIEWPOINT)) != _NO_VIEWPOINT:
        rest.append(f"VIEWPOINT {values['VIEWPOINT']}")
    header = Header(lines, _parse_fields(values), points, values["DATA"].lower(), rest)
    return header, sum(map(len, lines))


def _parse_fields(values: dict[str, str]) -> list[Field]:
    # COLUMNS is FIELDS before version 0.7.
    names = (values.get("FIELDS") or values.get("COLUMNS") or "").split(" ")
    sizes = values.get("SIZE", "4 " * len(names)).split()
    kinds = values.get("TYPE", "F " * len(names)).split()
    counts = values.get("COUNT", "1 " * len(names)).split()
    if not names or not len(names) == len(sizes) == len(kinds) == len(counts):
        raise ValueError(
            f"{len(names)} FIELDS, {len(sizes)} SIZE, {len(kinds)} TYPE, {len(counts)} COUNT values"
        )
    rows = zip(names, kinds, sizes, counts, strict=True)
    return [Field(name, kind.upper(), size, int(count)) for name, kind, size, count in rows]


def _ascii(lines: list[bytes], header: Header) -> Array:
    _check_size(len(lines), header.points, "lines")
    types = [(field.name, field.dtype) for field in header.fields for _ in range(field.count)]
    columns = parse_columns(lines, types)
    records = np.empty(len(lines), header.dtype)
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        part, columns = columns[: field.count], columns[field.count :]
        if part:
            records[name] = part[0] if field.count == 1 else np.stack(part, axis=1)
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
    padding = sum(
        field.dtype.itemsize * field.count for field in header.fields if field.name == "_"
    )
    has_padding = not padding or size != header.points * (header.dtype.itemsize - padding)
    if has_padding:  # PCL names it and leaves it out
        _check_size(size, header.points * header.dtype.itemsize, "bytes")
    if body[8 + packed :].strip(b"\0"):  # PCL itself leaves zeros there
        raise ValueError(f"bytes are left over after {packed} compressed ones")
    plain = decompress(body[8 : 8 + packed], size)
    records = np.zeros(header.points, header.dtype)
    at = 0
    for name, field in zip(records.dtype.names or (), header.fields, strict=True):
        if field.count and (field.name != "_" or has_padding):
            kind = records.dtype[name]
            records[name] = np.frombuffer(plain, kind, header.points, at)
            at += kind.itemsize * header.points
    return records


def decompress(data: bytes, size: int) -> bytes:
    """Decompresses LZF (M. Lehmann, liblzf) to `size` bytes."""
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


def _check_size(found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise ValueError(f"expected {expected} {unit} of points, got {found}")


def write(path: Path, cloud: Cloud) -> list[str]:
    """Writes a binary PCD with one field per column; returns the columns that are left out."""
    columns = columns_of(cloud.points, cloud.attributes)
    records, lost = join_columns(columns, has_long=True)
    names = records.dtype.names or ()
    kinds = [records.dtype[name] for name in names]
    lines = (
        "VERSION 0.7",
        f"FIELDS {' '.join(names)}",
        f"SIZE {' '.join(str(kind.itemsize) for kind in kinds)}",
        f"TYPE {' '.join(kind.kind.upper() for kind in kinds)}",
        f"COUNT {' '.join('1' for _ in kinds)}",
        f"WIDTH {len(records)}",
        "HEIGHT 1",
        f"VIEWPOINT {_NO_VIEWPOINT}",
        f"POINTS {len(records)}",
        "DATA binary",
    )
    head = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(head + records.tobytes())
    return lost
