"""ctypes bindings of baseline.cu, which nvcc compiles for the GPU at hand."""

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(Path(__file__).parent.rglob("*.cu"))
TARGET = ROOT / "build" / "benchmarks_cuda.so"


def _nvcc() -> str:
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if found is None:
        raise SystemExit("benchmarks.cuda: no nvcc on PATH or in CUDA_HOME")
    return found


@cache
def library() -> ctypes.CDLL:
    TARGET.parent.mkdir(exist_ok=True)
    major, minor = torch.cuda.get_device_capability()
    flags = ["-O3", "-std=c++17", f"-arch=sm_{major}{minor}", f"-I{ROOT / 'csrc'}"]
    shared = ["-shared", "-Xcompiler", "-fPIC", "-o", str(TARGET)]
    subprocess.run([_nvcc(), *flags, *shared, *map(str, SOURCES)], check=True)
    return ctypes.CDLL(str(TARGET))


def _pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def _check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


def one_block_fps(xyz: torch.Tensor, m: int) -> torch.Tensor:
    """The baseline: indices (B, m) of float32 clouds (B, N, 3)."""
    batch, n, _ = xyz.shape
    nearest = torch.empty(batch, n, device=xyz.device)
    indices = torch.empty(batch, m, dtype=torch.int32, device=xyz.device)
    arguments = (_pointer(xyz), batch, n, m, _pointer(nearest), _pointer(indices), _stream())
    _check(library().one_block_fps(*arguments), "one_block_fps")
    return indices
