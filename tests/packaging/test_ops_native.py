"""Choice of CUDA in a build of farpoint-ops, and what Python, bindings and kernels share."""

import ctypes
import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.repository import ROOT

from farpoint_server.codec.raw_sample import SampleRequest
from farpoint_server.compute.transfer.library import SampleBatch, Upload

NVCC = Path("/toolkit/bin/nvcc")


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the build, with neither settings nor a GPU."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    for name in ("FARPOINT_CUDA", "TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "CXX"):
        monkeypatch.delenv(name, raising=False)
    module = importlib.import_module("native.compilers")
    monkeypatch.setattr(module, "has_gpu", lambda: False)
    return module


def choose(compilers: ModuleType, cuda: str | None) -> Path | None:
    package = importlib.import_module("native.torch_package").TorchPackage
    chosen: Path | None = compilers.choose_nvcc([package(Path("torch"), "2.13.0", cuda)])
    return chosen


@pytest.mark.parametrize(
    ("wanted", "cuda", "nvcc", "gpu", "built"),
    [
        (None, "13.0", NVCC, True, True),
        ("auto", "12.8", NVCC, True, True),
        ("auto", "13.0", NVCC, False, False),  # PyPI's torch and an nvcc by chance
        ("auto", None, NVCC, True, False),
        ("auto", "13.0", None, True, False),
        ("1", "13.0", NVCC, False, True),
        ("1", None, NVCC, False, True),
        ("0", "13.0", NVCC, True, False),
    ],
)
def test_cuda_kernels_are_built(
    compilers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str | None,
    cuda: str | None,
    nvcc: Path | None,
    gpu: bool,
    built: bool,
) -> None:
    if wanted is not None:
        monkeypatch.setenv("FARPOINT_CUDA", wanted)
    monkeypatch.setattr(compilers, "find_nvcc", lambda: nvcc)
    monkeypatch.setattr(compilers, "has_gpu", lambda: gpu)
    assert choose(compilers, cuda) == (NVCC if built else None)


def test_a_build_without_cuda_kernels_names_the_reason(
    compilers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compilers, "find_nvcc", lambda: NVCC)
    choose(compilers, "13.0")
    assert "CPU kernels alone (there is no GPU); FARPOINT_CUDA=1 builds" in capsys.readouterr().out


def test_what_a_build_lacks_is_named_in_a_sentence(
    compilers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (("PATH", tmp_path), ("CUDA_HOME", tmp_path), ("FARPOINT_CUDA", "1")):
        monkeypatch.setenv(name, str(value))
    (tmp_path / "version.py").write_text("__version__ = '2.10.0'\n")
    read = importlib.import_module("native.torch_package").read_package
    for call, sentence in (
        (compilers.find_cxx, r"needs a C\+\+ compiler.*run `apt install g\+\+`"),
        (compilers.find_ninja, "needs ninja: run `pip install ninja`"),
        (lambda: choose(compilers, None), "FARPOINT_CUDA=1 needs nvcc: install the CUDA toolkit"),
        (lambda: read(tmp_path), "torch 2.10.0 is older than the oldest that is supported, 2.11"),
    ):
        with pytest.raises(SystemExit, match=f"^farpoint-ops: .*{sentence}"):
            call()


def test_another_value_is_refused(compilers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARPOINT_CUDA", "yes")
    with pytest.raises(SystemExit, match="FARPOINT_CUDA: expected auto, 0 or 1, got yes"):
        choose(compilers, None)


def test_a_wheel_holds_three_architectures_and_ptx(compilers: ModuleType) -> None:
    flags = compilers.architecture_flags()
    assert [flag.rpartition("code=")[2] for flag in flags] == [
        *("sm_80", "sm_90", "sm_100"),
        "compute_100",
    ]


def test_a_build_for_this_machine_is_for_its_gpus(
    compilers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "has_gpu", lambda: True)
    assert compilers.architecture_flags() == ["-arch=native"]
    monkeypatch.setenv("FARPOINT_CUDA", "1")
    assert len(compilers.architecture_flags()) == 4
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.6 12.0+PTX")
    assert compilers.architecture_flags() == [
        "-gencode=arch=compute_86,code=sm_86",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_120,code=compute_120",
    ]


TYPES = {
    "int64_t": ctypes.c_int64,
    "int32_t": ctypes.c_int32,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "pointer": ctypes.c_void_p,
}


def fields_of(header: str, name: str) -> list[tuple[str, type]]:
    """The fields of a struct and their types, as the header has them."""
    code = re.sub(r"//.*", "", (ROOT / "csrc" / header).read_text())
    (body,) = re.findall(rf"struct {name} {{(.*?)}};", code, re.DOTALL)
    found = []
    for declaration in filter(str.strip, body.split(";")):
        kind, names = re.fullmatch(r"\s*(?:const )?(\w+)\s*(.*)", declaration, re.DOTALL).groups()
        for each in re.split(r",\s*", names):
            pointer, field, count = re.fullmatch(r"(\*?)\s*(\w+)(?:\[(\d+)\])?", each).groups()
            made = TYPES["pointer" if pointer else kind]
            found.append((field, made * int(count) if count else made))
    return found


@pytest.mark.parametrize(
    ("structure", "header", "name"),
    [
        (SampleRequest, "cpu/kernels/messages/sample_request.h", "farpoint_sample_request"),
        (SampleBatch, "cuda/serving/sample_batch.h", "farpoint_sample_batch"),
        (Upload, "cuda/serving/sample_batch.h", "farpoint_upload"),
    ],
    ids=["SampleRequest", "SampleBatch", "Upload"],
)
def test_a_structure_has_the_fields_of_its_header(structure, header, name):
    assert list(structure._fields_) == fields_of(header, name)


CSRC = Path(__file__).resolve().parents[2] / "csrc"
GLUE = [*CSRC.glob("cpu/*.*"), *CSRC.glob("cuda/**/*.cpp"), CSRC / "cuda/common/torch_glue.h"]
KERNELS = [*CSRC.glob("cpu/kernels/**/*.cpp"), *CSRC.glob("cuda/**/*.cu")]
INCLUDE = re.compile(r'^#include "((?:cpu/kernels|cuda)/[^"]+\.h)"', re.MULTILINE)


def included(sources: Iterable[Path]) -> set[str]:
    return {name for path in sources for name in INCLUDE.findall(path.read_text())}


# All of it is inline.
WITHOUT_SYMBOLS = {"cpu/kernels/stop.h"}


@pytest.mark.parametrize("name", sorted((included(GLUE) & included(KERNELS)) - WITHOUT_SYMBOLS))
def test_what_a_binding_calls_is_exported(name: str) -> None:
    exported, end, _ = (CSRC / name).read_text().partition("#pragma GCC visibility pop\n")
    opened = "#pragma GCC visibility push(default)\nnamespace farpoint::" in exported
    assert opened, f"{name}: no `#pragma GCC visibility push(default)` before its namespace"
    assert end
