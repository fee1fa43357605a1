"""LAS and LAZ through laspy, the optional extra `las`."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farpoint.io.cloud import Cloud, Rows

if TYPE_CHECKING:
    from laspy import LasData


@dataclass(frozen=True)
class LasSource:
    """The file as laspy holds it."""

    las: "LasData"

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the points with every dimension, scaled as in the file; .laz is compressed."""
        laspy = _laspy()
        header = copy.deepcopy(self.las.header)
        # The octree of a COPC file describes points that are not there any more.
        header.vlrs[:] = [vlr for vlr in header.vlrs if vlr.user_id != "copc"]
        chosen = laspy.LasData(header, self.las.points[rows].copy())
        if self.las.evlrs:
            chosen.evlrs = type(self.las.evlrs)(v for v in self.las.evlrs if v.user_id != "copc")
        chosen.write(str(path))


def read(path: Path) -> Cloud:
    """Reads a file: scaled float64 coordinates, and every other dimension by its LAS name."""
    laspy = _laspy()
    try:
        las = laspy.read(str(path))
    except (laspy.errors.LaspyException, RuntimeError) as error:
        raise ValueError(str(error)) from error
    if len(las.points) != las.header.point_count:
        raise ValueError(f"{las.header.point_count} points announced, {len(las.points)} found")
    names = [n for n in las.point_format.dimension_names if n not in ("X", "Y", "Z")]
    return Cloud(np.asarray(las.xyz), {n: np.asarray(las[n]) for n in names}, LasSource(las))


def _laspy() -> Any:
    try:
        import laspy
    except ImportError as error:
        raise ValueError("LAS needs the package laspy: pip install 'farpoint[las]'") from error
    return laspy
