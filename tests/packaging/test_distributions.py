"""Distributions of server and client: built from their own folder alone, without test code."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"server": {"farpoint_server", "farpoint_models"}, "client": {"farpoint"}}
# Of development alone: fakes of devices and allocators, training, procedural scenes, test support.
FORBIDDEN = ("fake", "training", "scenes", "support", "test_", "conftest")


@pytest.fixture(params=PACKAGES)
def distribution(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[set[str], list[str]]:
    """The packages that are wanted, and the names of all files in the wheel."""
    pytest.importorskip("build", reason="optional extra: build is not installed")
    source = tmp_path / request.param
    left_out = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", "*.so")
    shutil.copytree(ROOT / request.param, source, ignore=left_out)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, source]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    return PACKAGES[request.param], names


def test_the_wheel_holds_its_packages_and_no_code_of_development(
    distribution: tuple[set[str], list[str]],
) -> None:
    packages, names = distribution
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    assert all(f"{package}/py.typed" in names for package in packages)
    assert not [name for name in names for word in FORBIDDEN if word in name]
