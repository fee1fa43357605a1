"""Files of every kind that a format has, made from bytes."""

import struct

import numpy as np

# Minor version and point format.
LAS_KINDS = [
    (minor, kind) for minor, last in enumerate((1, 1, 3, 5, 10)) for kind in range(last + 1)
]
LATIN_1 = "Überflug, Groß-Gerau".encode("latin-1")
_POINT_BYTES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)
_HEADER_BYTES = (227, 227, 227, 235, 375)
_WAVEFORM_KINDS = (4, 5, 9, 10)


def las_record(user: bytes, number: int, data: bytes, *, extended: bool = False) -> bytes:
    """A variable length record with a description in Latin-1."""
    form = "<2x16sHQ32s" if extended else "<2x16sHH32s"
    return struct.pack(form, user, number, len(data), LATIN_1) + data


def extra_bytes(name: bytes, kind: int, options: int = 0, low: int = 0, high: int = 0) -> bytes:
    """The description of a dimension, with a range where the options say so."""
    text = LATIN_1.ljust(32, b"\0")
    return struct.pack("<2xBB32s28xQ16xQ64x32s", kind, options, name, low, high, text)


def las_file(minor: int, kind: int, points: int = 60, *, channels: int = 1) -> bytes:
    """LAS with text in Latin-1, a range of extra bytes, waveforms and a record behind the points.

    Args:
        minor: version 1.0 to 1.4.
        kind: the point format.
        points: their number.
        channels: of the scanner, 1 to 4, in point formats from 6 on.
    """
    described = extra_bytes(b"amplitude", 3, 6, 0, 65535) + extra_bytes("Höhe".encode("latin-1"), 5)
    records = las_record(b"LASF_Spec", 4, described) + las_record(b"f\xfcr mich", 7, b"\x80data")
    records += las_record(b"LASF_Spec", 0, b"\x02Geb\xe4ude \xdf.......")
    size = _POINT_BYTES[kind] + 2 + 4 + 3  # three bytes that no record describes
    random = np.random.default_rng(kind)
    rows = random.integers(0, 256, (points, size), dtype=np.uint8)
    if kind > 5:
        rows[:, 15] = rows[:, 15] & 0xCF | np.arange(points) % channels << 4
    begin, body = _HEADER_BYTES[minor] + len(records) + 4, rows.tobytes()
    has_waves = minor >= 3 and kind in _WAVEFORM_KINDS
    tail = las_record(b"LASF_Spec", 65535, random.bytes(500), extended=True) * has_waves
    tail += las_record(b"own", 1, LATIN_1 * 9, extended=True) * (minor >= 4)
    returns = rows[:, 14] & (15 if kind > 5 else 7)
    counts = np.bincount(returns, minlength=16)[1:16].tolist()
    scaled = np.round(rows[:, :12].copy().view("<i4") * 0.01 + 100, 2)
    bounds = [bound for axis in scaled.T for bound in (axis.max(), axis.min())]
    head = struct.pack("<4sHH16s", b"LASF", 17, 2 * has_waves, bytes(range(16)))
    head += struct.pack("<BB32s32sHH", 1, minor, LATIN_1, LATIN_1[::-1], 0, 0)
    old = [points, *counts[:5]] if minor < 4 or kind < 6 else [0] * 6
    head += struct.pack("<HIIBH6I", _HEADER_BYTES[minor], begin, 3, kind, size, *old)
    head += struct.pack("<12d", *[0.01] * 3, *[100] * 3, *bounds)
    end = begin + len(body)
    head += struct.pack("<Q", end * has_waves) * (minor >= 3)
    head += struct.pack("<QI16Q", end, 1 + has_waves, points, *counts) * (minor >= 4)
    return head + records + b"gap!" + body + tail


PLY_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4"}
PLY_TYPES |= {"uint": "u4", "float": "f4", "double": "f8"}
_LENGTHS = ("char", "uchar", "short", "ushort", "int", "uint")


def ply_file(encoding: str, *, lists: bool, others: bool = False, points: int = 5) -> bytes:
    """PLY with a property of each type, and with lists of each type of length and of value."""
    end = "\r\n" if encoding == "binary_big_endian" else "\n"
    head = ["ply", f"format {encoding} 1.0", "comment \xdcberflug", "obj_info  two  blanks "]
    head += ["element camera 1", "property list uchar float pose"] if others else []
    head += [f"element vertex {points}", *(f"property double {axis}" for axis in "xyz")]
    head += [f"property {name} a_{name}" for name in PLY_TYPES] + ["comment H\xf6he"]
    kinds = [(n, v) for n in _LENGTHS for v in PLY_TYPES] if lists else []
    head += [f"property list {n} {v} H\xf6he_{n}_{v}" for n, v in kinds]
    head += ["element face 2", "property list uchar int vertex_indices"] if others else []
    rows = [[("f8", i / 8)] * 3 + [(kind, i) for kind in PLY_TYPES.values()] for i in range(points)]
    for i, row in enumerate(rows):
        for length, value in kinds:
            row += [(PLY_TYPES[length], 3 + i)] + [(PLY_TYPES[value], j) for j in range(3 + i)]
    camera = [[("u1", 2), ("f4", 0.5), ("f4", 1.5)]]
    every = [*camera, *rows, *[[("u1", 3), *[("i4", 1)] * 3]] * 2] if others else rows
    written = (_as_text if encoding == "ascii" else _as_bytes)(every, encoding)
    return end.join([*head, "end_header", ""]).encode("latin-1") + written


def _as_text(rows: list[list[tuple[str, float]]], _: str) -> bytes:
    return "".join("  ".join(f"{value}" for _, value in row) + " \n" for row in rows).encode()


def _as_bytes(rows: list[list[tuple[str, float]]], encoding: str) -> bytes:
    order = ">" if "big" in encoding else "<"
    return b"".join(np.array(v, f"{order}{kind}").tobytes() for row in rows for kind, v in row)


def pcd_file(encoding: str, *, height: int = 1, points: int = 6) -> bytes:
    """PCD with fields of each type and size, of several values and of none, and with padding."""
    kinds = ["F4", "F8", *(f"{letter}{size}" for letter in "IU" for size in (1, 2, 4, 8))]
    fields = [("x", "F4", 1), ("y", "F8", 1), ("_", "U1", 3), ("z", "I2", 1), ("none", "F4", 0)]
    fields += [(f"f{kind}", kind, 1) for kind in kinds] + [("H\xf6he", "F4", 3), ("_", "U1", 2)]
    names, types, counts = zip(*fields, strict=True)
    head = ["# .PCD v0.7 - Gr\xf6\xdfe", "VERSION\t.7", f"FIELDS {' '.join(names)}"]
    head += [f"SIZE {' '.join(kind[1] for kind in types)}"]
    head += [f"TYPE {' '.join(kind[0] for kind in types)}", f"COUNT {' '.join(map(str, counts))}"]
    head += [f"WIDTH {points // height}", f"HEIGHT {height}", "VIEWPOINT 1 2 3 1 0 0 0"]
    head += [f"POINTS {points}", f"DATA {encoding}", ""]
    dtype = [(f"{i}", f"<{kind.lower()}", (n,)) for i, (_, kind, n) in enumerate(fields)]
    records = np.zeros(points, dtype)
    for name in records.dtype.names or ():
        records[name] = np.arange(points)[:, None]
    if encoding == "ascii":
        cells = [
            [str(v) for name in records.dtype.names or () for v in row[name]] for row in records
        ]
        body = "".join("  ".join(row) + "\n" for row in cells).encode()
    elif encoding == "binary":
        body = records.tobytes()
    else:
        plain = b"".join(records[name].tobytes() for name in records.dtype.names or ())
        packed = b"".join(
            bytes([len(plain[at : at + 32]) - 1]) + plain[at : at + 32]
            for at in range(0, len(plain), 32)
        )
        body = struct.pack("<2I", len(packed), len(plain)) + packed
    return "\n".join(head).encode("latin-1") + body
