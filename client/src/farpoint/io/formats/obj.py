"""Vertices of a Wavefront .obj; faces are left out."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint.io.cloud import Cloud, ReadOptions, Rows

# Clouds of other formats lack what this one has, or have what it lacks.
WRITES_OWN = True


@dataclass(frozen=True)
class ObjSource:
    """The lines of the vertices."""

    lines: list[str]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the vertices as they were spelled."""
        path.write_text("".join(f"{self.lines[row]}\n" for row in rows), "utf-8")


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads the `v` lines: float64 x y z, and red green blue or a weight where they follow."""
    text = path.read_text("utf-8", errors="replace").splitlines()
    lines = [line.strip() for line in text if line.split(maxsplit=1)[:1] == ["v"]]
    if not lines:
        raise ValueError("0 points: no line starts with v")
    values = np.array([line.split()[1:] for line in lines], np.float64)
    if values.shape[1] < 3:
        raise ValueError(f"expected three numbers after v, got {values.shape[1]}")
    names = {4: "weight", 6: "rgb"}
    extra = values[:, 3] if values.shape[1] == 4 else values[:, 3:]
    attributes = {names[values.shape[1]]: extra} if values.shape[1] in names else {}
    faces = sum(line.startswith(("f ", "f\t")) for line in text)
    notes = (f"left out: {faces} faces",) if faces else ()
    return Cloud(values[:, :3], attributes, ObjSource(lines), notes=notes)
