"""Available compilers, and whether to build the CUDA kernels (FARPOINT_CUDA)."""

import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from native.torch_package import TorchPackage

# Architectures of a wheel: Ampere and Ada, Hopper, Blackwell, and PTX for what comes later.
WHEEL_ARCHITECTURES = "8.0;9.0;10.0+PTX"


def find_cxx() -> str:
    """The C++ compiler of CXX or by its usual names; raises SystemExit if there is none."""
    wanted = os.environ.get("CXX")
    names = [wanted.split()[0]] if wanted else ["c++", "g++"]
    if not any(shutil.which(name) for name in names):
        raise SystemExit(
            f"farpoint-ops: building it needs a C++ compiler, and there is no {names[-1]}: run "
            "`apt install g++` (or name one in CXX)"
        )
    return wanted or next(name for name in names if shutil.which(name))


def find_ninja() -> str:
    ninja = shutil.which("ninja")
    if ninja is None:
        raise SystemExit("farpoint-ops: building it needs ninja: run `pip install ninja`")
    return ninja


def find_nvcc() -> Path | None:
    """nvcc of CUDA_HOME, of PATH, or of the usual folder."""
    if home := os.environ.get("CUDA_HOME"):
        named = Path(home) / "bin" / "nvcc"
        return named if named.is_file() else None
    found = shutil.which("nvcc")
    usual = Path("/usr/local/cuda/bin/nvcc")
    return Path(found) if found else usual if usual.is_file() else None


def has_gpu() -> bool:
    """Whether the CUDA driver sees a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 < count.value


def _why_not(torches: Sequence[TorchPackage], nvcc: Path | None) -> str | None:
    if all(torch.cuda is None for torch in torches):
        return "torch is a CPU build"
    if nvcc is None:
        return "there is no nvcc"
    return None if has_gpu() else "there is no GPU"


def choose_nvcc(torches: Sequence[TorchPackage]) -> Path | None:
    """nvcc if the CUDA kernels are built; None for the CPU kernels only.

    FARPOINT_CUDA=1 builds them, 0 does not, and auto, the default, does where torch is a CUDA
    build and both nvcc and a GPU are there: nvcc alone does not mean that ten minutes of compiling
    are wanted.
    """
    wanted, nvcc = os.environ.get("FARPOINT_CUDA", "auto"), find_nvcc()
    if wanted not in ("auto", "0", "1"):
        raise SystemExit(f"farpoint-ops: FARPOINT_CUDA: expected auto, 0 or 1, got {wanted}")
    if wanted == "1" and nvcc is None:
        raise SystemExit(
            "farpoint-ops: FARPOINT_CUDA=1 needs nvcc: install the CUDA toolkit 12.8 or newer and "
            "name its folder in CUDA_HOME, or set FARPOINT_CUDA=0"
        )
    reason = "FARPOINT_CUDA=0" if wanted == "0" else _why_not(torches, nvcc)
    if wanted == "1" or reason is None:
        return nvcc
    print(f"farpoint-ops: CPU kernels alone ({reason}); FARPOINT_CUDA=1 builds those for CUDA too")
    return None


def architecture_flags() -> list[str]:
    """nvcc's flags for TORCH_CUDA_ARCH_LIST, else for the GPUs here, else for those of a wheel."""
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST")
    if not listed and os.environ.get("FARPOINT_CUDA") != "1" and has_gpu():
        return ["-arch=native"]
    flags = []
    for entry in (listed or WHEEL_ARCHITECTURES).replace(" ", ";").split(";"):
        number = entry.removesuffix("+PTX").replace(".", "")
        flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
        if entry.endswith("+PTX"):
            flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return flags
