"""The CPU model of the CUDA kernels, built to execute their source or the PTX that nvcc makes."""

import ctypes
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.cuda.ptx.module import Fault, translate

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests" / "ops" / "cuda" / "model"
KERNELS = ROOT / "csrc" / "cuda"
BUILD = ROOT / "build" / "cuda_model"
JOBS = 2
INCLUDES = (f"-I{MODEL / 'include'}", f"-I{MODEL}", f"-I{ROOT / 'csrc'}")
FLAGS = ("-std=c++17", "-fPIC", "-ffp-contract=off", "-U_FORTIFY_SOURCE", *INCLUDES)
KERNEL_FLAGS = ("-include", str(MODEL / "ptx_model.h"), "-x", "c++")
PTX_FLAGS = ("-ptx", "-arch=sm_90", "-O3", "-std=c++17", f"-I{ROOT / 'csrc'}")


@dataclass(frozen=True)
class Executed:
    """What a build of the model executes.

    Args:
        name: Of the build.
        ptx: Stems of the sources whose PTX runs; the other kernels run as C++.
        kernel: Part of a kernel's mangled name, where not all of these sources are meant.
        fault: Planted in them.
    """

    name: str = "source"
    ptx: frozenset[str] = frozenset()
    kernel: str = ""
    fault: Fault | None = None


SOURCE = Executed()
ALL_PTX = Executed("ptx", frozenset(p.stem for p in KERNELS.rglob("*_kernel.cu")))
_executed = [ALL_PTX if os.environ.get("FARPOINT_MODEL") == "ptx" else SOURCE]


@contextmanager
def executing(executed: Executed) -> Iterator[None]:
    """Calls of the model in this block run that build."""
    _executed.append(executed)
    try:
        yield
    finally:
        _executed.pop()


def executes_ptx() -> bool:
    return bool(_executed[-1].ptx)


def has_nvcc() -> bool:
    return shutil.which("nvcc") is not None


def library() -> ctypes.CDLL:
    """The build that is executed now, made anew when a source of it is newer."""
    return _library(_executed[-1])


def _newest(pattern: str) -> float:
    sources = (p for folder in (MODEL, KERNELS) for p in folder.rglob(pattern) if p.is_file())
    translation = max(path.stat().st_mtime for path in Path(__file__).parent.glob("ptx/*.py"))
    return max(translation, *(p.stat().st_mtime for p in sources))


def _run(command: list[str], target: Path) -> None:
    """A command that is interrupted leaves no half a target."""
    unfinished = target.with_suffix(".unfinished")
    subprocess.run([*command, "-o", str(unfinished)], check=True)
    unfinished.replace(target)


def _is_fresh(target: Path, source: Path, headers: float) -> bool:
    return target.exists() and target.stat().st_mtime > max(headers, source.stat().st_mtime)


def _ptx(source: Path, headers: float) -> str:
    target = BUILD / f"{source.stem}.ptx"
    if not _is_fresh(target, source, headers):
        _run(["nvcc", *PTX_FLAGS, str(source)], target)
    return target.read_text()


def _compile(source: Path, executed: Executed, headers: float) -> Path:
    """The object of a source, kept from an earlier attempt where nothing changed since."""
    translated = source.stem in executed.ptx
    folder = BUILD / (executed.name if translated else "source")
    target = folder / f"{source.relative_to(ROOT)}.o"
    target.parent.mkdir(parents=True, exist_ok=True)
    if _is_fresh(target, source, headers):
        return target
    flags = ("-O1" if translated else "-O2", *FLAGS)
    if source.suffix == ".cu":
        flags += KERNEL_FLAGS
    if translated:
        module = _ptx(source, headers)
        code = translate(module, source, executed.kernel, executed.fault)
        source = target.with_suffix(".cpp")
        source.write_text(code)
    _run(["g++", "-c", *flags, str(source)], target)
    return target


@cache
def _library(executed: Executed) -> ctypes.CDLL:
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / f"{executed.name}.so"
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists() or target.stat().st_mtime < _newest("*"):
            headers = max(_newest("*.*h"), _newest("*.h"), _newest("include/*"))
            kernels = (*sorted(KERNELS.rglob("*.cu")), *sorted(MODEL.rglob("*.cu")))
            sources = (*kernels, *sorted(MODEL.rglob("*.cpp")))
            with ThreadPoolExecutor(JOBS) as pool:
                objects = pool.map(lambda source: _compile(source, executed, headers), sources)
                _run(["g++", "-shared", *map(str, objects)], target)
    lib = ctypes.CDLL(str(target))
    lib.model_failure.restype = ctypes.c_char_p
    lib.model_plan.restype = ctypes.c_int64
    lib.model_leaves_visited.restype = ctypes.c_int64
    lib.model_index_bytes.restype = ctypes.c_int64
    return lib
