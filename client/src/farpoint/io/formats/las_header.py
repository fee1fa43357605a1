"""The header of a LAS or LAZ file, checked against the file before a library reads it."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SIGNATURE = b"LASF"
SHORTEST_HEADER = 227
_VLR_BYTES, _EVLR_BYTES = 54, 60
_LASZIP_RECORD = 22204
_CHUNKED_COMPRESSORS = (2, 3)
_VARIABLE_CHUNKS = 0xFFFFFFFF


@dataclass(frozen=True)
class LasHeader:
    """Counts and sizes of a header."""

    points: int
    record_bytes: int
    compressed: bool


def check_header(path: Path) -> LasHeader:
    """Reads and checks a header without decompression."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(375).ljust(375, b"\0")
        if not head.startswith(SIGNATURE) or size < SHORTEST_HEADER:
            raise ValueError(
                "no LAS header: expected LASF in the first bytes and 227 bytes or more"
            )
        header_bytes, begin, records = struct.unpack_from("<HII", head, 94)
        kind, record_bytes, points = struct.unpack_from("<BHI", head, 104)
        if not SHORTEST_HEADER <= header_bytes <= begin <= size:
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
    return LasHeader(points, record_bytes, compressed)


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
        raise ValueError("packed by a laszip before version 2, which no chunks can be read of")
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
