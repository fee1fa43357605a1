"""LZF, the compression of `binary_compressed` PCD files (M. Lehmann, liblzf)."""

_MAX_LITERALS, _MAX_DISTANCE, _MAX_LENGTH = 32, 1 << 13, 264


def compress(data: bytes) -> bytes:
    """Data that `decompress` unpacks to `data`."""
    out = bytearray()
    latest: dict[bytes, int] = {}
    begin = at = 0  # of the bytes that are not written yet
    while at + 3 <= len(data):
        key = data[at : at + 3]
        found = latest.get(key, at - _MAX_DISTANCE - 1)
        latest[key] = at
        if at - found > _MAX_DISTANCE:
            at += 1
            continue
        _literals(out, data[begin:at])
        length = 3
        most = min(_MAX_LENGTH, len(data) - at)
        while length < most and data[found + length] == data[at + length]:
            length += 1
        high, low = divmod(at - found - 1, 256)
        more = [length - 9] if length >= 9 else []
        out += bytes([min(length - 2, 7) << 5 | high, *more, low])
        begin = at = at + length
    _literals(out, data[begin:])
    return bytes(out)


def _literals(out: bytearray, data: bytes) -> None:
    for at in range(0, len(data), _MAX_LITERALS):
        part = data[at : at + _MAX_LITERALS]
        out += bytes([len(part) - 1]) + part


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` unpacks to."""
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
    """Bytes to repeat, and the position after their count."""
    length = control >> 5
    if length == 7:
        return length + data[at] + 2, at + 1
    return length + 2, at


def _repeat(out: bytearray, distance: int, length: int) -> None:
    """Appends `length` bytes that begin `distance` before the end; the two may overlap."""
    begin = len(out) - distance
    if begin < 0:
        raise ValueError("the compressed data points before its own start")
    if distance >= length:
        out += out[begin : begin + length]
    else:
        pattern = out[begin:]
        out += (pattern * (length // distance + 1))[:length]
