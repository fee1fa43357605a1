"""Parser and writer of the text header of PCD files."""

from dataclasses import dataclass

import numpy as np

KEYWORDS = {
    "VERSION",
    "FIELDS",
    "COLUMNS",  # FIELDS before version 0.7
    "SIZE",
    "TYPE",
    "COUNT",
    "WIDTH",
    "HEIGHT",
    "VIEWPOINT",
    "POINTS",
    "DATA",
}


@dataclass(frozen=True)
class Field:
    """One field of a point."""

    name: str
    kind: str
    size: int
    count: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the whole field, (count,) where it has several values."""
        letters = {"F": "f", "I": "i", "U": "u"}
        if self.kind not in letters:
            raise ValueError(f"field {self.name} has type {self.kind}, expected F, I or U")
        return np.dtype((f"<{letters[self.kind]}{self.size}", (self.count,) * (self.count > 1)))


@dataclass(frozen=True)
class Header:
    """What the lines above the points say."""

    fields: tuple[Field, ...]
    points: int
    encoding: str
    viewpoint: str

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of one point. Padding is named `_` any number of times, so it gets numbers here."""
        names = [f"_{i}" if f.name == "_" else f.name for i, f in enumerate(self.fields)]
        return np.dtype([(n, f.dtype) for n, f in zip(names, self.fields, strict=True)])


def parse(data: bytes) -> tuple[Header, int]:
    """The header, and where the points begin."""
    values: dict[str, str] = {}
    at = 0
    while "DATA" not in values:
        end = data.find(b"\n", at)
        if end < 0:
            raise ValueError("no DATA line")
        keyword, _, rest = data[at:end].decode("ascii", "replace").strip().partition(" ")
        if keyword.upper() in KEYWORDS:
            values[keyword.upper()] = rest.strip()
        elif keyword and not keyword.startswith("#"):
            raise ValueError(f"unknown header line {keyword[:40]!r}")
        at = end + 1
    return _header(values), at


def _header(values: dict[str, str]) -> Header:
    names = (values.get("FIELDS") or values.get("COLUMNS") or "").split()
    ones = "1 " * len(names)
    sizes = values.get("SIZE", "4 " * len(names)).split()
    kinds = values.get("TYPE", "F " * len(names)).split()
    counts = values.get("COUNT", ones).split()
    if not names or not len(names) == len(sizes) == len(kinds) == len(counts):
        raise ValueError(f"{len(names)} FIELDS, {len(sizes)} SIZE, {len(kinds)} TYPE values")
    rows = zip(names, kinds, sizes, counts, strict=True)
    fields = tuple(Field(n, kind.upper(), int(size), int(count)) for n, kind, size, count in rows)
    area = int(values.get("WIDTH", 0)) * int(values.get("HEIGHT", 1))
    points = int(values.get("POINTS", area))
    if "WIDTH" in values and points != area:
        raise ValueError(f"POINTS is {points}, but WIDTH times HEIGHT is {area}")
    viewpoint = values.get("VIEWPOINT", "0 0 0 1 0 0 0")
    return Header(fields, points, values["DATA"].lower(), viewpoint)


def render(header: Header) -> bytes:
    """The header as version 0.7 spells it, for an unorganised cloud."""
    lines = {
        "VERSION": "0.7",
        "FIELDS": " ".join(f.name for f in header.fields),
        "SIZE": " ".join(str(f.size) for f in header.fields),
        "TYPE": " ".join(f.kind for f in header.fields),
        "COUNT": " ".join(str(f.count) for f in header.fields),
        "WIDTH": str(header.points),
        "HEIGHT": "1",
        "VIEWPOINT": header.viewpoint,
        "POINTS": str(header.points),
        "DATA": header.encoding,
    }
    return "".join(f"{keyword} {value}\n" for keyword, value in lines.items()).encode()
