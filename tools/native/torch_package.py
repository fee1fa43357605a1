"""Installed torch packages to compile bindings against, found without importing them."""

import importlib.util
import os
import re
import site
import sysconfig
from dataclasses import dataclass
from pathlib import Path

OLDEST = (2, 11)


@dataclass(frozen=True)
class TorchPackage:
    """Headers and libraries of one torch."""

    root: Path
    version: str
    cuda: str | None  # the CUDA version it is built for

    @property
    def minor(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def includes(self) -> list[Path]:
        include = self.root / "include"
        return [include, include / "torch" / "csrc" / "api" / "include"]


def read_package(root: Path) -> TorchPackage:
    """The torch in a package folder, by its version.py."""
    text = (root / "version.py").read_text()
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.*= '([^']+)'", text, re.MULTILINE)
    if version is None:
        raise SystemExit(f"farpoint-ops: {root}/version.py names no version of torch")
    found = TorchPackage(root, version[1], cuda[1] if cuda else None)
    if found.minor < OLDEST:
        raise SystemExit(
            f"farpoint-ops: torch {found.version} is older than the oldest that is supported, "
            "2.11: run `pip install --upgrade torch`"
        )
    return found


def _candidates() -> list[Path]:
    """Folders in which this Python's torch may be.

    pip builds in an isolated environment, whose import path leaves out what is installed, but
    under the same interpreter, whose folders of packages are known.
    """
    spec = importlib.util.find_spec("torch")
    imported = list(spec.submodule_search_locations or []) if spec else []
    paths = sysconfig.get_paths()
    folders = [paths["platlib"], paths["purelib"], site.getusersitepackages()]
    return [Path(p) for p in imported] + [Path(folder) / "torch" for folder in folders]


def find_packages() -> list[TorchPackage]:
    """The torch of this Python, or those named by FARPOINT_TORCH, of different minors.

    Raises:
        SystemExit: There is none.
    """
    if named := os.environ.get("FARPOINT_TORCH"):
        return [read_package(Path(root)) for root in named.split(os.pathsep)]
    for root in _candidates():
        if (root / "version.py").is_file():
            return [read_package(root)]
    raise SystemExit(
        "farpoint-ops: it is compiled against the torch that is installed, and this Python has "
        "none: run `pip install torch` first (or name the folder of a torch package in "
        "FARPOINT_TORCH)"
    )
