"""E57 of laser scanners through pye57, of the optional extra `io`."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.files import require

_AXES = ("cartesianX", "cartesianY", "cartesianZ")
_SPHERICAL = ("sphericalRange", "sphericalAzimuth", "sphericalElevation")
_STATES = ("cartesianInvalidState", "sphericalInvalidState")
_NORMALS = ("nor:normalX", "nor:normalY", "nor:normalZ")
_NAMES = {"colorRed": "red", "colorGreen": "green", "colorBlue": "blue"}
_NAMES |= {"rowIndex": "row", "columnIndex": "column"}
# Types that libe57 fills, from the smallest on.
_INTEGERS = tuple(map(np.dtype, "BbHhq"))


def read(path: Path, options: ReadOptions) -> Cloud:  # noqa: ARG001
    """Reads every scan of a file with all its fields, placed by its pose; float64.

    Points without a return are left out. With more than one scan the attribute `scan` says which
    of them a point is from; attributes that not every scan has are left out.
    """
    pye57 = require("pye57", "E57")
    lost: Counter[str] = Counter()
    with pye57.E57(str(path)) as file:
        scans = [_read_scan(pye57, file, i, lost) for i in range(file.scan_count)]
        if file.root.isDefined("images2D"):
            lost["{} images"] += len(file.root["images2D"])
    if not scans:
        raise ValueError("0 points: the file holds no scan")
    shared = [name for name in scans[0] if all(name in scan for scan in scans)]
    columns = {name: np.concatenate([scan[name] for scan in scans]) for name in shared}
    points = columns.pop("points")
    if len(scans) > 1:
        columns["scan"] = np.repeat(np.arange(len(scans)), [len(s["points"]) for s in scans])
    dropped = sorted({name for scan in scans for name in scan} - set(shared))
    notes = [f"left out, as not every scan has it: {', '.join(dropped)}"] if dropped else []
    notes += [f"left out: {what.format(n)}" for what, n in lost.items() if n or "(" in what]
    return Cloud(points, columns, unit="metre", notes=tuple(notes))


def _read_scan(pye57: Any, file: Any, i: int, lost: Counter[str]) -> dict[str, Array]:
    header = file.get_header(i)
    fields = _read_fields(pye57, file, header)
    lost.update(f"{name} (no number)" for name in header.point_fields if name not in fields)
    if set(_AXES) <= fields.keys():
        points = np.stack([fields.pop(axis) for axis in _AXES], axis=1)
    elif set(_SPHERICAL) <= fields.keys():
        spherical = np.stack([fields[axis] for axis in _SPHERICAL], axis=1)
        points = pye57.utils.convert_spherical_to_cartesian(spherical)
    else:
        raise ValueError(f"no coordinates among the fields {', '.join(fields)} of scan {i}")
    valid = np.ones(len(points), np.bool_)
    for name in set(_STATES) & fields.keys():
        valid &= fields.pop(name) == 0
        lost[f"{{}} points without a return ({name})"] += int((~valid).sum())
    rotation, translation = header.rotation_matrix, header.translation
    if np.any(translation) or np.any(rotation != np.eye(3)):
        points = points @ rotation.T + translation
        lost["the poses of {} scans, by which their points are moved"] += 1
        if set(_NORMALS) <= fields.keys():
            normals = np.stack([fields[name] for name in _NORMALS], axis=1) @ rotation.T
            fields.update(zip(_NORMALS, normals.T, strict=True))
    named = {_NAMES.get(name, name): values[valid] for name, values in fields.items()}
    return {"points": points[valid], **named}


def _read_fields(pye57: Any, file: Any, header: Any) -> dict[str, Array]:
    """All columns of numbers of a scan."""
    prototype = pye57.libe57.StructureNode(header.points.prototype())
    buffers = pye57.libe57.VectorSourceDestBuffer()
    fields: dict[str, Array] = {}
    for name in header.point_fields:
        kind = _dtype(prototype[name])
        if kind is not None:
            fields[name] = np.empty(header.point_count, np.float64 if name in _AXES else kind)
            buffers.append(
                pye57.libe57.SourceDestBuffer(
                    file.image_file, name, fields[name], header.point_count, True, True
                )
            )
    header.points.reader(buffers).read()
    return fields


def _dtype(node: Any) -> np.dtype[Any] | None:
    """The type of a field's values; None for text and structures."""
    kind = type(node).__name__
    if kind == "IntegerNode":
        limits = node.minimum(), node.maximum()
        return next(
            t for t in _INTEGERS if all(np.iinfo(t).min <= n <= np.iinfo(t).max for n in limits)
        )
    if kind == "FloatNode":
        return np.dtype(np.float32 if node.precision().name == "E57_SINGLE" else np.float64)
    return np.dtype(np.float64) if kind == "ScaledIntegerNode" else None
