"""The bytes around the points of a LAS file: header, records, and what stands behind the points.

They are compared with the size of the file before anything is read, and written as they were but
for counts, bounds and positions: laspy changes text, ranges and the place of waveform packets.
"""

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from farpoint._types import Array
from farpoint.io.numbers import decode

_LASZIP = ("laszip encoded", 22204)
_SIGNATURE = b"LASF"
_SHORTEST_HEADER, _LONGEST_HEADER = 227, 375
_VLR, _EVLR = struct.Struct("<2x16sHH32x"), struct.Struct("<2x16sHQ32x")
_CHUNKED_COMPRESSORS = (2, 3)
_VARIABLE_CHUNKS = 0xFFFFFFFF
_COMPRESSED, _FORMAT_BITS = 0x80, 0x3F
_WAVEFORM_FORMATS = (4, 5, 9, 10)
_EXTERNAL_WAVEFORMS = 4
_WAVEFORMS_AT, _EXTENDED_AT = 227, 235


class Record(NamedTuple):
    """A variable length record: its user and number, all its bytes, and those after its head."""

    kind: tuple[str, int]
    raw: memoryview
    data: memoryview


@dataclass(frozen=True)
class Frame:
    """The bytes around the points."""

    head: bytes
    records: list[Record]
    gap: memoryview
    """What stands between the records and the points."""
    tail_at: int
    tail: memoryview
    """What stands behind the points, from the byte `tail_at` of the file on."""
    extended: tuple[Record, ...] = ()
    """The records of the tail."""

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """Little-endian numbers of the header; zeros where it is too short."""
        return struct.unpack_from(f"<{form}", self.head.ljust(_LONGEST_HEADER, b"\0"), at)

    def find(self, kind: tuple[str, int]) -> bytes | None:
        """The data of the first record of a kind."""
        every = (*self.records, *self.extended)
        return next((bytes(record.data) for record in every if record.kind == kind), None)

    @property
    def minor(self) -> int:
        """4 of LAS 1.4."""
        return self.head[25]

    @property
    def points(self) -> int:
        """The number of points; LAS 1.4 may state it as older versions do."""
        extended = self.unpack("Q", 247)[0] if self.minor >= 4 else 0
        return int(extended or self.unpack("I", 107)[0])

    @property
    def point_format(self) -> int:
        """The number of the point format."""
        return self.head[104] & _FORMAT_BITS

    @property
    def point_bytes(self) -> int:
        """The size of a point."""
        return int(self.unpack("H", 105)[0])

    @property
    def begin(self) -> int:
        """Where the points begin."""
        return int(self.unpack("I", 96)[0])

    @property
    def laszip(self) -> bytes | None:
        """What laszip needs to unpack the points; None if they are not packed."""
        return (self.find(_LASZIP) or b"") if self.head[104] > _FORMAT_BITS else None

    @property
    def positions(self) -> dict[int, int]:
        """Positions behind the points, by their place in the header."""
        has_waveforms = self.minor >= 3 and self.point_format in _WAVEFORM_FORMATS
        places = [_WAVEFORMS_AT] * has_waveforms + [_EXTENDED_AT] * (self.minor >= 4)
        found = {at: int(self.unpack("Q", at)[0]) for at in places}
        return {at: position for at, position in found.items() if position >= self.begin}

    @property
    def waveforms(self) -> str | None:
        """Where the waveform packets are: "in the file", "in another file"; None without."""
        if self.point_format not in _WAVEFORM_FORMATS:
            return None
        if self.head[6] & _EXTERNAL_WAVEFORMS:
            return "in another file"
        return "in the file" if _WAVEFORMS_AT in self.positions else None

    def without_octree(self) -> "Frame":
        """Without the octree of COPC, which describes points that are not there any more."""
        if not any(record.kind[0] == "copc" for record in self.records):
            return self
        records = [record for record in self.records if record.kind[0] != "copc"]
        extended = tuple(record for record in self.extended if record.kind[0] != "copc")
        head = bytearray(self.head)
        if self.minor >= 4:
            start = self.tail_at if extended else 0
            struct.pack_into("<QI", head, _EXTENDED_AT, start, len(extended))
        tail = memoryview(b"".join(record.raw for record in extended))
        return replace(self, head=bytes(head), records=records, extended=extended, tail=tail)

    def render(self, laszip: bytes | None, **changes: Any) -> bytes:
        """All that stands before the points, where laszip packs them or not.

        Args:
            laszip: its record.
            changes: see `_change`; without any the sizes are right and the numbers old.
        """
        head = _VLR.pack(_LASZIP[0].encode(), _LASZIP[1], len(laszip or b""))
        packed = [] if laszip is None else [head + laszip]
        kinds = [record.kind for record in self.records]
        at = kinds.index(_LASZIP) if _LASZIP in kinds else len(kinds)
        raw = [record.raw for record in self.records]
        records: list[bytes | memoryview] = [*raw[:at], *packed, *raw[at + 1 :]]
        begin = len(self.head) + sum(map(len, records)) + len(self.gap)
        made = bytearray(self.head)
        struct.pack_into("<II", made, 96, begin, len(records))
        made[104] = self.point_format | (0 if laszip is None else _COMPRESSED)
        if changes:
            self._change(made, **changes)
        return b"".join([made, *records, self.gap])

    def _change(self, head: bytearray, tail_at: int, returns: Array, bounds: list[float]) -> None:
        """Sets positions, counts and bounds.

        Args:
            head: the header.
            tail_at: where the tail is now.
            returns: the number of the return of each point.
            bounds: high and low of x, y and z.
        """
        for at, position in self.positions.items():
            struct.pack_into("<Q", head, at, position - self.tail_at + tail_at)
        if self.waveforms == "in another file":
            head[6] &= ~_EXTERNAL_WAVEFORMS
        counts = np.bincount(returns, minlength=16)[1:16].tolist()
        if self.minor < 4 or self.unpack("I", 107)[0]:  # else these are not used
            struct.pack_into("<6I", head, 107, len(returns), *counts[:5])
        struct.pack_into("<6d", head, 179, *bounds)
        if self.minor >= 4:
            struct.pack_into("<16Q", head, 247, len(returns), *counts)


def read_frame(path: Path) -> Frame:
    """Reads what stands around the points, without decompression."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_LONGEST_HEADER)
        if not head.startswith(_SIGNATURE) or size < _SHORTEST_HEADER:
            raise ValueError(
                "no LAS header: expected LASF in the first bytes and 227 bytes or more"
            )
        header_bytes, begin, count = struct.unpack_from("<HII", head, 94)
        least = _LONGEST_HEADER if head[25] >= 4 else 235 if head[25] == 3 else _SHORTEST_HEADER
        if not least <= header_bytes <= begin <= size:
            raise ValueError(
                f"the header has {header_bytes} bytes, points begin at {begin}, the file has {size}"
            )
        stream.seek(0)
        before = memoryview(stream.read(begin))
        records = _walk(before[header_bytes:], count, _VLR)
        at = header_bytes + sum(len(record.raw) for record in records)
        frame = Frame(bytes(before[:header_bytes]), records, before[at:], 0, before[:0])
        tail_at = _end_of_points(stream, size, frame)
        start, extended = frame.unpack("QI", _EXTENDED_AT) if frame.minor >= 4 else (0, 0)
        if extended and not tail_at <= start <= size - extended * _EVLR.size:
            raise ValueError(
                f"{extended} extended records announced at {start}, the file has {size} bytes"
            )
        stream.seek(tail_at)
        tail = memoryview(stream.read())
    found = _walk(tail[start - tail_at :], extended, _EVLR) if extended else []
    return replace(frame, tail_at=tail_at, tail=tail, extended=tuple(found))


def _walk(data: memoryview, count: int, head: struct.Struct) -> list[Record]:
    """The records in these bytes."""
    if count * head.size > len(data):
        raise ValueError(f"{count} records announced in {len(data)} bytes before the points")
    found: list[Record] = []
    at = 0
    for i in range(count):
        begin = at + head.size
        user, number, length = head.unpack_from(data, at) if begin <= len(data) else (b"", 0, 0)
        at = begin + length
        if at > len(data):
            raise ValueError(f"record {i} of {count} ends {at - len(data)} bytes too late")
        kind = decode(user.split(b"\0")[0]), number
        found.append(Record(kind, data[begin - head.size : at], data[begin:at]))
    return found


def _end_of_points(stream: BinaryIO, size: int, frame: Frame) -> int:
    """Where the points end, or if they are packed what is known to stand behind them."""
    room = size - frame.begin
    if frame.laszip is not None:
        if frame.points:
            _check_chunks(stream, size, frame.begin, frame.laszip, frame.points, frame.point_bytes)
        return min(frame.positions.values(), default=size)
    if frame.points * frame.point_bytes > room:
        raise ValueError(
            f"{frame.points} points of {frame.point_bytes} bytes announced, {room} bytes are there"
        )
    return frame.begin + frame.points * frame.point_bytes


def _check_chunks(
    stream: BinaryIO, size: int, begin: int, laszip: bytes, points: int, record_bytes: int
) -> None:
    """Checks the number of chunks, each of which begins with a whole point."""
    if len(laszip) < 34:
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
