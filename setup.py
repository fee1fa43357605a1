"""The compiled half of farpoint_ops; everything else is in pyproject.toml."""

import os
from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import (
    CUDA_HOME,
    BuildExtension,
    CppExtension,
    CUDAExtension,
    include_paths,
)

ROOT = Path(__file__).parent

# No -march: a wheel runs on any machine of its architecture, and kernels choose SIMD at run time.
# No -std: torch's build adds the one its headers need. OpenMP drives at::parallel_for. The torch
# version makes ninja build anew for another torch, and lets the import refuse a stale build.
CXX = [
    *("-O3", "-g0", "-Wall", "-Wextra", "-Werror=return-type", "-fvisibility=hidden", "-fopenmp"),
    # A contracted product would round once where the contract says twice. GCC 12 warns of its own
    # AVX-512 header.
    *("-ffp-contract=off", "-Wno-maybe-uninitialized", "-Wno-uninitialized"),
    f'-DFARPOINT_TORCH_VERSION="{torch.__version__}"',
    # As system headers, so that warnings are about this project.
    *(f"-isystem{path}" for path in include_paths()),
]
LINK = ["-fopenmp"]


def sources(*patterns: str) -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for pat in patterns for p in (ROOT / "csrc").glob(pat))


def extension() -> CppExtension:
    """A CUDA torch with nvcc gets the CUDA kernels; any other torch the CPU kernels alone."""
    cpu = sources("*.cpp", "cpu/**/*.cpp", "autograd/**/*.cpp")
    options = {
        "name": "farpoint_ops._C",
        "include_dirs": [str(ROOT / "csrc")],
        "extra_link_args": LINK,
    }
    if torch.version.cuda is None or CUDA_HOME is None:
        return CppExtension(sources=cpu, extra_compile_args={"cxx": CXX}, **options)
    if not torch.cuda.is_available():  # torch would build for GPUs that lack instructions in use
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "8.0;9.0;10.0+PTX")
    return CUDAExtension(
        sources=cpu + sources("cuda/**/*.cpp", "cuda/**/*.cu"),
        extra_compile_args={
            "cxx": [*CXX, "-DFARPOINT_WITH_CUDA"],
            "nvcc": ["-O3", "-lineinfo"],
        },
        **options,
    )


# `make` installs the Python files alone and lets `build_ext --inplace` compile only what changed.
skip = os.environ.get("FARPOINT_SKIP_EXTENSION") == "1"
setup(ext_modules=[] if skip else [extension()], cmdclass={"build_ext": BuildExtension})
