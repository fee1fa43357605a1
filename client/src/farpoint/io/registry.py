"""Which module reads and writes a suffix; it is imported only when a file asks for it."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from farpoint.errors import CloudFileError

_PACKAGE = "farpoint.io.formats"

_MODULES = {
    ".npy": "npy",
    ".npz": "npz",
    ".ply": "mesh.ply",
    ".pcd": "pcd.pcd",
    ".bin": "kitti",
    ".las": "las.las",
    ".laz": "las.las",
    ".xyz": "text.text",
    ".txt": "text.text",
    ".csv": "text.text",
    ".pts": "text.text",
    ".obj": "mesh.obj",
    ".off": "mesh.off",
    ".stl": "mesh.stl",
    ".vtk": "vtk.legacy",
    ".vtp": "vtk.xml",
    ".e57": "e57",
    ".parquet": "parquet",
    ".mcap": "robot.bag",
    ".db3": "robot.bag",
    ".bag": "robot.bag",
}

INDICES_SUFFIX = ".indices.npy"
COPC_SUFFIX = ".copc.laz"

SUFFIXES = tuple(_MODULES)


@dataclass(frozen=True)
class Format:
    """How files are read and written; suffixes may share one."""

    module: str

    def load(self) -> ModuleType:
        """The module, with `read(path, options)` and perhaps `write(path, cloud)`."""
        return importlib.import_module(f"{_PACKAGE}.{self.module}")


def format_of(path: Path, suffix: str | None = None) -> Format:
    """The format that a suffix names.

    Raises:
        CloudFileError: there is none.
    """
    name = (suffix or path.suffix).lower()
    if name not in _MODULES:
        known = " ".join(_MODULES)
        raise CloudFileError(f"unknown suffix {name!r}, expected {known}", path=path)
    return Format(_MODULES[name])


def is_cloud_file(path: Path) -> bool:
    """Whether a file in a folder is meant when the folder is."""
    name = path.name.lower()
    return path.suffix.lower() in _MODULES and not name.endswith(INDICES_SUFFIX)
