"""numpy's .npz: an array `points` (or `xyz`, or the only one) and arrays with as many rows."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib.format import write_array
from numpy.lib.recfunctions import repack_fields

from farpoint._types import Array
from farpoint.io.budget import check_budget
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.formats.npy import NpySource, cloud_of
from farpoint.io.records import free_name

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
    attributes = dict(cloud.attributes)
    for name in arrays:
        if name in per_point and name != main:
            attributes[free_name(name, attributes)] = arrays[name]
    others = ", ".join(name for name in arrays if name not in per_point)
    notes = (f"not an attribute: {others} (not one row per point)",) if others else ()
    return Cloud(cloud.points, attributes, NpzSource(arrays, per_point), notes=notes)


def _load(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            # An archive of megabytes may unpack to gigabytes.
            total = sum(entry.file_size for entry in archive.zip.infolist())
            check_budget(_COPIES * total, f"arrays of {total / 1e9:.1f} GB")
            arrays = {name: archive[name] for name in archive.files}
    except (BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error
    strange = [name for name, values in arrays.items() if not isinstance(values, np.ndarray)]
    if strange:
        raise ValueError(f"the entries {', '.join(strange)} are no arrays")
    return arrays


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


def write(path: Path, cloud: Cloud) -> list[str]:
    """Writes `points` and every attribute under its name; returns what is left out: objects."""
    arrays = {"points": cloud.points}
    for name, values in cloud.attributes.items():
        arrays[free_name(name, arrays)] = values
    lost = [name for name, values in arrays.items() if values.dtype.hasobject]
    _save(path, {name: values for name, values in arrays.items() if name not in lost})
    return lost


def _save(path: Path, arrays: dict[str, Array]) -> None:
    """Like `numpy.savez`, for arrays of any name."""
    with ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                write_array(stream, repack_fields(values), allow_pickle=False)
