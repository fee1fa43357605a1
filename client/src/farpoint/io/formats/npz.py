"""numpy's .npz: an array `points` (or `xyz`, or the only one) and arrays with as many rows."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from farpoint._types import Array
from farpoint.io.budget import check_budget
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.formats.npy import NpySource, cloud_of

# Copies that reading holds at once: the arrays, zlib's output and the returned points.
_COPIES = 3


@dataclass(frozen=True)
class NpzSource:
    """Arrays by name; those of `per_point` have one row per point."""

    arrays: dict[str, Array]
    per_point: frozenset[str]

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows of the arrays per point, and all other arrays whole."""
        kept = {k: v[rows] if k in self.per_point else v for k, v in self.arrays.items()}
        _save(path, kept)


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads a .npz file; the options may name the array of the points."""
    arrays = _load(path)
    main = _main_name(list(arrays), options.array)
    cloud = cloud_of(arrays[main], options)
    # An organized array is kept as the rows that it was read as.
    arrays[main] = cloud.source.array if isinstance(cloud.source, NpySource) else arrays[main]
    per_point = frozenset(k for k, v in arrays.items() if v.ndim and len(v) == len(cloud))
    others = {k: arrays[k] for k in arrays if k in per_point and k != main}
    return Cloud(cloud.points, {**cloud.attributes, **others}, NpzSource(arrays, per_point))


def _load(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            # An archive of megabytes may unpack to gigabytes.
            total = sum(entry.file_size for entry in archive.zip.infolist())
            check_budget(_COPIES * total, f"arrays of {total / 1e9:.1f} GB")
            return {name: archive[name] for name in archive.files}
    except (BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


def _main_name(names: list[str], wanted: str | None) -> str:
    listed = ", ".join(names) or "nothing"
    if wanted is not None:
        if wanted not in names:
            raise ValueError(f"no array named {wanted}, got {listed}")
        return wanted
    for name in ("points", "xyz"):
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    raise ValueError(
        f"expected an array named points or xyz, or a single one, got {listed}: "
        "choose one with --array NAME"
    )


def write(path: Path, cloud: Cloud) -> None:
    """Writes `points` and every attribute under its name."""
    _save(path, {"points": cloud.points, **cloud.attributes})


def _save(path: Path, arrays: dict[str, Any]) -> None:
    if "file" in arrays:
        raise ValueError("an attribute named 'file' has no place in this format")
    with path.open("wb") as stream:  # numpy would append ".npz" to a name
        np.savez(stream, **arrays)
