"""The compiled part of farpoint_ops; everything else is in pyproject.toml."""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))  # a build runs this file with no path to its folder

from native.graph import build_libraries  # noqa: E402
from native.torch_package import find_packages  # noqa: E402

LIBRARIES = Path("farpoint_ops", "lib")


def install(libraries: list[Path], target: Path) -> None:
    """Makes `target` hold these libraries alone; what did not change stays as it is."""
    target.mkdir(parents=True, exist_ok=True)
    for old in set(target.glob("*.so")) - {target / path.name for path in libraries}:
        old.unlink()
    for path in libraries:
        installed = target / path.name
        if installed.exists() and installed.stat().st_mtime >= path.stat().st_mtime:
            continue
        new = installed.with_suffix(".new")  # a process that runs keeps the file it has loaded
        shutil.copy2(path, new)
        new.replace(installed)


class BuildLibraries(build_ext):
    """`build_ext` with ninja in build/native, whose bindings are for the torch of this Python."""

    def run(self) -> None:
        folder = Path(os.environ.get("FARPOINT_BUILD") or ROOT / "build" / "native")
        libraries = build_libraries(find_packages(), folder)
        install(libraries, (ROOT / "ops" if self.inplace else Path(self.build_lib)) / LIBRARIES)

    def get_outputs(self) -> list[str]:
        return [str(path) for path in (Path(self.build_lib) / LIBRARIES).glob("*.so")]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class AnyPythonWheel(bdist_wheel):
    """A wheel for every Python 3, since nothing that is compiled knows Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


# `make` installs the Python files alone and lets `build_ext --inplace` compile only what changed.
skip = os.environ.get("FARPOINT_SKIP_EXTENSION") == "1"
setup(
    ext_modules=[] if skip else [Extension("farpoint_ops.lib", sources=[])],
    cmdclass={} if skip else {"build_ext": BuildLibraries, "bdist_wheel": AnyPythonWheel},
)
