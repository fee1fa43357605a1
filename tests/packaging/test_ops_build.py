"""Build of farpoint-ops: what its wheel holds, and its sentences where something is missing.

A stand-in for ninja makes empty libraries, so nothing is compiled; `make wheels` does that.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import setuptools
from tests.support.repository import make_repository

ROOT = Path(__file__).resolve().parents[2]
NINJA = f"""#!{sys.executable}
import pathlib, sys
for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
    if line.startswith("build "):
        target = pathlib.Path(line.split()[1].rstrip(":"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
"""
KERNELS = {"libfarpoint_cpu.so", "libfarpoint_cuda.so"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what an sdist holds, and a library left over from a build in place."""
    folder = tmp_path / "source"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for name in ("ops", "csrc", "tools/native"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "LICENSE",
        "THIRD_PARTY.md",
        "constraints.txt",
    ):
        shutil.copy(ROOT / name, folder)
    (folder / "ops" / "farpoint_ops" / "lib").mkdir(exist_ok=True)
    (folder / "ops" / "farpoint_ops" / "lib" / "libfarpoint_torch_2_10.so").touch()
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs for PATH: ninja, a C++ compiler and nvcc, none of which works."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (("ninja", NINJA), ("c++", "#!/bin/false"), ("nvcc", "#!/bin/false")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def make_torch(folder: Path, version: str, cuda: str | None) -> Path:
    """A torch package with no more than its version."""
    package = folder / version / "torch"
    package.mkdir(parents=True)
    text = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\n"
    (package / "version.py").write_text(text)
    return package


@pytest.fixture
def torches(tmp_path: Path) -> str:
    found = [("2.11.0", "13.0"), ("2.13.0+cpu", None), ("2.14.1", "13.2")]
    return os.pathsep.join(str(make_torch(tmp_path, *torch)) for torch in found)


def build(
    source: Path,
    programs: Path,
    kind: str = "wheel",
    *,
    python: str = sys.executable,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Calls the build backend as pip does."""
    unset = ("FARPOINT_CUDA", "FARPOINT_TORCH", "FARPOINT_BUILD", "CXX", "CUDA_HOME", "PYTHONPATH")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    env = {**inherited, "PATH": str(programs), **environment}
    code = f"from setuptools import build_meta; build_meta.build_{kind}('dist')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=source, env=env)


def test_one_wheel_serves_every_python_and_these_torches(
    source: Path, programs: Path, torches: str
) -> None:
    done = build(source, programs, FARPOINT_TORCH=torches, FARPOINT_CUDA="1")
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(n).decode() for n in names if n.endswith("METADATA"))
    libraries = {Path(name).name for name in names if ".so" in name}
    bindings = {f"libfarpoint_torch_2_{minor}.so" for minor in (11, 13, 14)}
    assert libraries == KERNELS | bindings | {n.replace(".so", "_cuda.so") for n in bindings}
    assert {"farpoint_ops/_load.py", "farpoint_ops/py.typed"} <= names
    assert not [name for name in names if name.startswith(("native", "csrc", "tools"))]
    assert re.findall(r"^License-File: (\S+)", metadata, re.M) == ["LICENSE", "THIRD_PARTY.md"]
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(needed) == ["numpy", "torch"]


def test_the_sdist_holds_what_a_build_needs(source: Path, programs: Path) -> None:
    pytest.importorskip("setuptools_scm", reason="optional extra: setuptools-scm is not installed")
    (source / "tests").mkdir()
    (source / "tests" / "large.bin").touch()
    make_repository(source, tag="v1.2.3")
    done = build(source, programs, "sdist", PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    (path,) = (source / "dist").glob("*.tar.gz")
    assert path.name == "farpoint_ops-1.2.3.tar.gz"
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    compiled = {str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*") if p.is_file()}
    assert compiled <= names
    assert {"setup.py", "tools/native/graph.py", "ops/farpoint_ops/_load.py"} <= names
    assert not [name for name in names if name.endswith(".so") or name.startswith("tests")]


@pytest.fixture
def bare_python(tmp_path: Path) -> tuple[str, str]:
    """An interpreter of an environment without torch, and a folder with setuptools."""
    venv.create(tmp_path / "bare", symlinks=True)
    (tmp_path / "packages").mkdir()
    installed = Path(setuptools.__file__).parents[1]
    needed = ("setuptools*", "vcs_versioning*", "_distutils_hack")
    for package in (path for name in needed for path in installed.glob(name)):
        (tmp_path / "packages" / package.name).symlink_to(package)
    return str(tmp_path / "bare" / "bin" / "python"), str(tmp_path / "packages")


def test_a_missing_torch(source: Path, programs: Path, bare_python: tuple[str, str]) -> None:
    python, packages = bare_python
    done = build(source, programs, python=python, PYTHONPATH=packages)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("farpoint-ops:") == 1
    assert "run `pip install torch` first" in done.stderr.splitlines()[-1]


def test_a_torch_that_the_isolated_build_does_not_see(
    source: Path, programs: Path, bare_python: tuple[str, str], tmp_path: Path
) -> None:
    """pip takes the environment's packages off the import path, and so does this test."""
    python, packages = bare_python
    (installed,) = (tmp_path / "bare").glob("lib/python3*/site-packages")
    make_torch(tmp_path, "2.12.1", None).rename(installed / "torch")
    hidden = tmp_path / "packages" / "sitecustomize.py"
    hidden.write_text(f"import sys\nsys.path.remove({str(installed)!r})\n")
    done = build(source, programs, python=python, PYTHONPATH=packages)
    assert done.returncode == 0, done.stderr
    assert (source / "build" / "native" / "lib" / "libfarpoint_torch_2_12.so").exists()
