"""LZF, by which compressed PCD files are packed (M. Lehmann, liblzf)."""


def decompress(data: bytes, size: int) -> bytes:
    """Decompresses `data` to `size` bytes."""
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
