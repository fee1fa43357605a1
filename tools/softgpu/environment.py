"""Builds the environment of the software CUDA runtime in build/softgpu: `make gpu-soft`.

It holds torch's CUDA build from PyPI (0.6 GB to fetch, 1.3 GB installed) and none of NVIDIA's
wheels, what the server and its tests import, the runtime in place of CUDA's libraries, and our ops
built by nvcc as for a card.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import libraries
import tomllib

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "softgpu"
PYTHON = BUILD / "venv" / "bin" / "python"
# `make image-test IMAGE=cuda` wants that of the image.
TORCH = os.environ.get("SOFTGPU_TORCH", "2.14.1")
NEEDED_BY_TORCH = ("filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions")
TOOLS = ("setuptools>=77", "setuptools-scm>=8", "wheel", "ninja")
TEST_TOOLS = ("pytest>=8", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
TEST_PACKAGES = ("trustme", "tritonclient[grpc,http]>=2.60", "tqdm")
PACKAGES = ("client", "server", "training")


def run(*command: object, **environment: str) -> None:
    subprocess.run([*map(str, command)], cwd=ROOT, env={**os.environ, **environment}, check=True)


def site_packages() -> Path:
    return next((BUILD / "venv").glob("lib/python3*/site-packages"))


def requirements() -> list[str]:
    """The requirements of this repository's packages, without themselves and torch."""
    found: list[str] = []
    for package in PACKAGES:
        project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
        found += project.get("dependencies", [])
    own = ("farpoint", "torch")
    return [need for need in found if not need.startswith(own)]


def constraints() -> Path:
    """The repository's, without its torch."""
    lines = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
    target = BUILD / "constraints.txt"
    target.write_text("".join(line for line in lines if not line.startswith("torch")))
    return target


def make_environment() -> None:
    if PYTHON.exists() and (BUILD / "installed").exists():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "-m", "venv", BUILD / "venv")
    pip = (PYTHON, "-m", "pip", "install", "-q", "-c", constraints())
    run(*pip, "--no-deps", f"torch==={TORCH}")  # and no 2.13.0+cpu
    run(*pip, *NEEDED_BY_TORCH, *TOOLS, *TEST_TOOLS, *TEST_PACKAGES, *requirements())
    editable = [word for package in PACKAGES for word in ("-e", package)]
    run(*pip, "--no-deps", "--no-build-isolation", *editable)
    (BUILD / "installed").touch()


def find_cuda() -> Path:
    """The folder of the CUDA toolkit."""
    nvcc = shutil.which("nvcc")
    toolkit = Path(nvcc).resolve().parents[1] if nvcc else None
    for home in (os.environ.get("CUDA_HOME"), toolkit, "/usr/local/cuda"):
        if home and (Path(home) / "include" / "cuda_runtime_api.h").is_file():
            return Path(home)
    sys.exit("gpu-soft: needs the CUDA toolkit 13: put nvcc on PATH or name it in CUDA_HOME")


def build_ops() -> Path:
    """Our ops for this torch, their kernels as machine code and PTX for compute capability 9.0.

    They lie in an overlay of the package, so that the checkout's own stay as they are.
    """
    overlay = BUILD / "packages" / "farpoint_ops"
    run(
        *(PYTHON, "setup.py", "-q", "build_ext", "--build-lib", overlay.parent),
        PATH=f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}",
        FARPOINT_CUDA="1",
        FARPOINT_BUILD=str(BUILD / "native"),
        TORCH_CUDA_ARCH_LIST="9.0+PTX",
        NVCC_APPEND_FLAGS="-cudart=shared -no-compress",
    )
    for link in overlay.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink()
    for path in (ROOT / "ops" / "farpoint_ops").iterdir():
        link = overlay / path.name
        if path.name not in ("lib", "__pycache__") and not link.exists():
            link.symlink_to(path)
    return overlay / "lib" / "libfarpoint_cuda.so"


def build_torch_ops(torch: Path, target: Path, cuda: Path) -> None:
    folder = BUILD / "torch"
    folder.mkdir(exist_ok=True)
    include = torch / "include"
    flags = ["-std=c++20", "-O1", "-fPIC", "-w", f"-I{cuda / 'include'}", f"-isystem{include}"]
    objects = []
    for name in ("torch_ops", "torch_blocks"):
        source, made = HERE / f"{name}.cpp", folder / f"{name}.o"
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            run("g++", "-c", *flags, source, "-o", made)
        objects.append(made)
    libs = [f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", "-lc10_cuda", target / libraries.RUNTIME]
    run("g++", "-shared", *objects, *libs, "-o", target / "libsoftgpu_torch.so")


def main() -> None:
    make_environment()
    cuda, site = find_cuda(), site_packages()
    torch, installed = site / "torch", site / "nvidia" / "cu13" / "lib"
    libraries.build(torch, cuda, BUILD / "runtime", installed)
    build_torch_ops(torch, installed, cuda)
    library = build_ops()
    run(PYTHON, HERE / "kernels.py", library, installed / "libsoftgpu_kernels.so")
    shutil.copy(HERE / "softgpu_start.py", site)
    # What is imported first: the ops with their CUDA kernels, before the checkout's.
    (site / "softgpu.pth").write_text(f"import softgpu_start\n{BUILD / 'packages'}\n")


if __name__ == "__main__":
    main()
