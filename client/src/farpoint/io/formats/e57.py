"""E57 of laser scanners through pye57, of the optional extra `io`."""

from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.files import require

_AXES = ("cartesianX", "cartesianY", "cartesianZ")
_COLORS = ("colorRed", "colorGreen", "colorBlue")
_NAMES = dict(zip(_COLORS, ("red", "green", "blue"), strict=True))
_NAMES |= {"rowIndex": "row", "columnIndex": "column"}


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads every scan of a file, placed by its pose; float64.

    Points without a return are left out. With more than one scan the attribute `scan` says which
    of them a point is from; attributes that not every scan has are left out.
    """
    pye57 = require("pye57", "E57")
    with pye57.E57(str(path)) as file:
        scans = [_read_scan(file, i) for i in range(file.scan_count)]
        moved = sum(_is_moved(file.get_header(i)) for i in range(file.scan_count))
    if not scans:
        raise ValueError("0 points: the file holds no scan")
    shared = [name for name in scans[0] if all(name in scan for scan in scans)]
    columns = {name: np.concatenate([scan[name] for scan in scans]) for name in shared}
    points = columns.pop("points")
    if len(scans) > 1:
        columns["scan"] = np.repeat(np.arange(len(scans)), [len(s["points"]) for s in scans])
    dropped = sorted({name for scan in scans for name in scan} - set(shared))
    notes = [f"left out, as not every scan has it: {', '.join(dropped)}"] if dropped else []
    if moved:
        notes.append(f"left out: the poses of {moved} scans, by which their points are moved")
    return Cloud(points, columns, unit="metre", notes=tuple(notes))


def _read_scan(file: Any, i: int) -> dict[str, Array]:
    fields = set(file.get_header(i).point_fields)
    found = file.read_scan(
        i,
        intensity="intensity" in fields,
        colors=set(_COLORS) <= fields,
        row_column={"rowIndex", "columnIndex"} <= fields,
        transform=True,
        ignore_missing_fields=True,
    )
    points = np.stack([found.pop(axis) for axis in _AXES], axis=1)
    return {"points": points, **{_NAMES.get(k, k): np.asarray(v) for k, v in found.items()}}


def _is_moved(header: Any) -> bool:
    if not header.has_pose():
        return False
    return bool(np.any(header.translation) or np.any(header.rotation_matrix != np.eye(3)))
