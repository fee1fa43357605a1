"""Distributions of server and client: built from their own folder alone, without test code."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from tests.support.repository import make_repository

import farpoint
import farpoint_ops

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"server": {"farpoint_server", "farpoint_models"}, "client": {"farpoint"}}
# Development code: fakes of devices and allocators, training, procedural scenes, test support.
FORBIDDEN = ("fake", "training", "scenes", "support", "test_", "conftest")
ADDRESS = re.compile(r"https://github\.com/farpoint/\w+")


class Built(NamedTuple):
    folder: str
    names: list[str]  # of all files in the wheel
    metadata: Message


@pytest.fixture(scope="module", params=["server", pytest.param("client", marks=pytest.mark.slow)])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist that `python -m build` makes, and the wheel from that sdist."""
    for tool in ("build", "setuptools_scm"):
        pytest.importorskip(tool, reason=f"optional extra: {tool} is not installed")
    folder = tmp_path_factory.mktemp("repository")
    left_out = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", "*.so")
    shutil.copytree(ROOT / request.param, folder / request.param, ignore=left_out)
    make_repository(folder, tag="v1.2.3")
    command = [sys.executable, "-m", "build", "-n", "-o", folder, folder / request.param]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("/METADATA"))
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    return Built(request.param, names, Parser().parsestr(metadata))


def test_the_wheel_holds_its_packages_and_no_code_of_development(built: Built) -> None:
    packages, names = PACKAGES[built.folder], built.names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    assert all(f"{package}/py.typed" in names for package in packages)
    assert not [name for name in names for word in FORBIDDEN if word in name]


def test_the_version_is_that_of_the_tag_and_so_are_those_it_goes_with(built: Built) -> None:
    assert built.metadata["Version"] == "1.2.3"
    required = built.metadata.get_all("Requires-Dist") or []
    family = {requirement for requirement in required if requirement.startswith("farpoint")}
    ours = {"farpoint==1.2.3", "farpoint-ops==1.2.3"}
    assert family == (ours if built.folder == "server" else set())


def test_the_metadata_have_the_licenses_of_what_is_bundled(built: Built) -> None:
    bundled = {"server": {"THIRD_PARTY.md", "farpoint_server/web/licenses.txt"}}
    files = {"LICENSE"} | bundled.get(built.folder, set())
    assert set(built.metadata.get_all("License-File") or []) == files


def test_links_of_the_description_lead_somewhere_from_another_site(built: Built) -> None:
    links = re.findall(r"\]\(([^)]+)\)", built.metadata.get_payload())
    assert links
    for link in links:
        path = re.fullmatch(rf"{ADDRESS.pattern}(?:/(?:blob|tree|raw)/main/([^#]+))?(#.*)?", link)
        assert path, link
        assert (ROOT / (path[1] or "")).exists(), link


def test_the_repository_has_one_address() -> None:
    """Each distribution and the citation name it; a fork changes it in one search."""
    texts = [ROOT / "pyproject.toml", ROOT / "CITATION.cff"]
    texts += [ROOT / folder / "pyproject.toml" for folder in PACKAGES]
    texts += ROOT.glob("*/README.md")
    found = {path.name: set(ADDRESS.findall(path.read_text())) for path in texts}
    assert len(set.union(*found.values())) == 1
    assert all(ADDRESS.search(path.read_text()) for path in texts[:4])


@pytest.mark.parametrize("package", [farpoint, farpoint_ops], ids=lambda p: p.__name__)
def test_the_version_is_that_of_the_distribution_and_other_names_are_missing(
    package: ModuleType,
) -> None:
    assert package.__version__ == version(package.__name__.replace("_", "-"))
    with pytest.raises(
        AttributeError, match=f"module '{package.__name__}' has no attribute 'nope'"
    ):
        _ = package.nope
