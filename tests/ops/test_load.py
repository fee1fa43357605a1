"""Load of the compiled ops, and its error messages when that fails."""

import importlib.metadata
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import farpoint_ops


class Package:
    """A copy of the package, in a checkout or installed, with empty files for libraries."""

    def __init__(self, root: Path, is_checkout: bool) -> None:
        self.folder = root / "ops" / "farpoint_ops"
        (self.folder / "lib").mkdir(parents=True)
        shutil.copy(Path(farpoint_ops.__file__).with_name("_load.py"), self.folder)
        name = importlib.metadata.metadata("farpoint-ops")["Name"]
        self.remedy = "run `make ext` to build"
        if is_checkout:
            (root / "csrc").mkdir()
        else:
            self.remedy = rf"run `pip install .*--no-binary {name} {name}` to build"

    def load(self, *minors: str) -> None:
        for minor in minors:
            (self.folder / "lib" / f"libfarpoint_torch_{minor}.so").touch()
        load: Callable[[], None] = runpy.run_path(str(self.folder / "_load.py"))["load"]
        load()


@pytest.fixture(params=["checkout", "installed"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Package:
    return Package(tmp_path, request.param == "checkout")


def test_no_libraries(package: Package) -> None:
    with pytest.raises(ImportError, match=f"are missing: {package.remedy}"):
        package.load()


@pytest.mark.parametrize("version", ["3.1.0", "2.15.0+cu132", "2.16.0a0+git1234"])
def test_a_torch_that_is_newer_than_the_wheel(
    package: Package, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ImportError) as caught:
        package.load("2_9", "2_11", "2_14", "2_14_cuda")
    version = version.split("+")[0]
    caught.match(rf"for torch 2\.9, 2\.11, 2\.14, not for {version}.*: {package.remedy}")
    assert "\n" not in str(caught.value)


def test_a_binding_that_does_not_load(package: Package) -> None:
    with pytest.raises(
        ImportError, match=rf"do not load with torch .*too short.*: {package.remedy}"
    ):
        package.load("_".join(torch.__version__.split(".")[:2]))


@pytest.mark.parametrize(
    ("cuda", "there", "loaded"),
    [
        (None, ("2_13", "2_13_cuda", "2_12"), ["2_13"]),
        ("13.0", ("2_13", "2_13_cuda", "2_12"), ["2_13", "2_13_cuda"]),
        ("13.0", ("2_13",), ["2_13"]),
    ],
)
def test_a_cuda_torch_gets_the_cuda_binding_where_there_is_one(
    package: Package,
    monkeypatch: pytest.MonkeyPatch,
    cuda: str | None,
    there: tuple[str, ...],
    loaded: list[str],
) -> None:
    found: list[str] = []
    monkeypatch.setattr(torch, "__version__", "2.13.1")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: found.append(path.name))
    package.load(*there)
    assert found == [f"libfarpoint_torch_{version}.so" for version in loaded]
