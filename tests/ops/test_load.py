"""Load of the compiled ops, and its error messages when that fails."""

import importlib.metadata
from pathlib import Path

import pytest
import torch

from farpoint_ops import _load


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of libraries, empty."""
    monkeypatch.setattr(_load, "LIBRARIES", tmp_path)
    return tmp_path


def add(folder: Path, *minors: str) -> None:
    for minor in minors:
        (folder / f"libfarpoint_torch_{minor}.so").touch()


@pytest.fixture(params=["checkout", "installed"])
def command(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command to run, in a checkout and where the package is installed."""
    package = tmp_path / "checkout" / "ops" / "farpoint_ops"
    package.mkdir(parents=True)
    monkeypatch.setattr(_load, "__file__", str(package / "_load.py"))
    if request.param == "installed":
        return "run `pip install .*--no-binary farpoint-ops farpoint-ops` to build"
    (tmp_path / "checkout" / "csrc").mkdir()
    return "run `make ext` to build"


@pytest.mark.usefixtures("libraries")
def test_no_libraries(command: str) -> None:
    with pytest.raises(ImportError, match=f"are missing: {command}"):
        _load.load()


@pytest.mark.parametrize("version", ["3.1.0", "2.15.0+cu132", "2.16.0a0+git1234"])
def test_a_torch_that_is_newer_than_the_wheel(
    libraries: Path, command: str, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    add(libraries, "2_9", "2_11", "2_14", "2_14_cuda")
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ImportError) as caught:
        _load.load()
    sentence = rf"for torch 2\.9, 2\.11, 2\.14, not for {version.split('+')[0]}.*: {command}"
    caught.match(sentence)
    assert "\n" not in str(caught.value)


def test_a_binding_that_does_not_load(libraries: Path, command: str) -> None:
    add(libraries, "_".join(torch.__version__.split(".")[:2]))
    with pytest.raises(ImportError, match=rf"do not load with torch .*too short.*: {command}"):
        _load.load()


@pytest.mark.parametrize(
    ("cuda", "there", "loaded"),
    [
        (None, ("2_13", "2_13_cuda", "2_12"), ["2_13"]),
        ("13.0", ("2_13", "2_13_cuda", "2_12"), ["2_13", "2_13_cuda"]),
        ("12.8", ("2_13", "2_13_cuda", "2_12"), ["2_13", "2_13_cuda"]),
        ("13.0", ("2_13",), ["2_13"]),
    ],
)
def test_a_cuda_torch_gets_the_cuda_binding_where_there_is_one(
    libraries: Path,
    monkeypatch: pytest.MonkeyPatch,
    cuda: str | None,
    there: tuple[str, ...],
    loaded: list[str],
) -> None:
    add(libraries, *there)
    found: list[str] = []
    monkeypatch.setattr(torch, "__version__", "2.13.1")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: found.append(path.name))
    _load.load()
    assert found == [f"libfarpoint_torch_{version}.so" for version in loaded]


def test_the_command_names_the_distribution() -> None:
    """The sentence sends people to pip with a name that it knows."""
    assert importlib.metadata.metadata("farpoint-ops")["Name"] in _load._FROM_SOURCE
