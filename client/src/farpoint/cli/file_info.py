"""`farpoint info FILE`: description of a cloud file."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from farpoint.cli.sample.options import read_options
from farpoint.io import read_with
from farpoint.io.cloud import Cloud


def show_file(given: Namespace) -> None:
    """Prints points, bounds, unit, reference system and attributes of a file."""
    cloud = read_with(Path(given.file), read_options(given))
    values = {"input": given.file, **_described(cloud)}
    if given.as_json:
        print(json.dumps(values))
        return
    for name, value in values.items():
        if name == "bounds":
            low, high = (" ".join(map(repr, row)) for row in value or ("", ""))
            value = f"{low} to {high}" if value else "no finite point"
        elif name == "attributes":
            value = ", ".join(f"{key} ({kind})" for key, kind in value.items()) or "none"
        elif name == "notes":
            value = "; ".join(value)
        if value not in ("", None):
            print(f"{name:10} {value}")


def _described(cloud: Cloud) -> dict[str, Any]:
    finite = cloud.points[np.isfinite(cloud.points).all(axis=1)]
    bounds = [finite.min(axis=0).tolist(), finite.max(axis=0).tolist()] if len(finite) else None
    return {
        "points": len(cloud),
        "finite": len(finite),
        "type": str(cloud.points.dtype),
        "bounds": bounds,
        "unit": cloud.unit,
        "crs": cloud.crs,
        "attributes": {name: _kind(cloud.attributes[name]) for name in cloud.attributes},
        "notes": cloud.notes,
    }


def _kind(values: np.ndarray[Any, Any]) -> str:
    width = "".join(f" x {n}" for n in values.shape[1:])
    return f"{'text' if values.dtype.kind in 'US' else values.dtype}{width}"
