"""The module that reads and writes each suffix; it is imported when a file asks for it."""

import importlib
from pathlib import Path
from types import ModuleType

from farpoint.errors import CloudFileError

PACKAGE = "farpoint.io.formats"
_MODULES = {
    ".npy": "npy",
    ".npz": "npz",
    ".ply": "ply",
    ".pcd": "pcd",
    ".bin": "bin",
    ".las": "las",
    ".laz": "las",
    ".xyz": "text",
    ".txt": "text",
    ".csv": "text",
    ".pts": "text",
    ".e57": "e57",
    ".mcap": "bag",
    ".db3": "bag",
    ".bag": "bag",
}
SUFFIXES = tuple(_MODULES)
INDICES_SUFFIX = ".indices.npy"
_COPC_SUFFIX = ".copc.laz"


def format_name(path: Path, suffix: str | None = None, *, to_read: bool = False) -> str:
    """The module of a suffix, by default the path's own; raises CloudFileError for others."""
    name = (suffix or path.suffix).lower()
    if name not in _MODULES:
        hint = ": name the format, as in --format .xyz (in Python format=)" if to_read else ""
        known = " ".join(_MODULES)
        raise CloudFileError(f"unknown suffix {name!r}, expected {known}{hint}", path=path)
    return f"{PACKAGE}.{_MODULES[name]}"


def format_module(path: Path, suffix: str | None = None, *, to_read: bool = False) -> ModuleType:
    """The module, with `read(path, options)` and perhaps `write(path, cloud)`."""
    return importlib.import_module(format_name(path, suffix, to_read=to_read))


def is_cloud_file(path: Path) -> bool:
    """Whether a file is read with its folder."""
    return path.suffix.lower() in _MODULES and not is_indices(path)


def is_indices(path: Path) -> bool:
    """Whether a name asks for the row indices."""
    return path.name.lower().endswith(INDICES_SUFFIX)


def check_writable(path: Path, *, same_format: bool) -> None:
    """Raises CloudFileError where nothing writes a suffix, or only for clouds of its own format."""
    if is_indices(path):
        return
    if path.name.lower().endswith(_COPC_SUFFIX):
        raise CloudFileError("COPC is read but not written: name it .laz", path=path)
    module = format_module(path)
    own = hasattr(module, "WRITES_OWN")
    if not (hasattr(module, "write") or (own and same_format)):
        reason = "only a cloud read from {} can be written so" if own else "{} is read, not written"
        raise CloudFileError(reason.format(path.suffix), path=path)
