"""The ninja file of the compiled ops, and its run.

libfarpoint_cpu.so and libfarpoint_cuda.so hold the kernels and know no torch. For each minor of
torch, libfarpoint_torch_2_13.so holds the schemas, the autograd functions and the calls into the
CPU's kernels, and libfarpoint_torch_2_13_cuda.so those into CUDA's.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from native.compilers import architecture_flags, choose_nvcc, find_cxx, find_ninja
from native.torch_package import TorchPackage

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

# No -march: a wheel runs on any machine of its architecture, and kernels choose SIMD at run time. A
# contracted product would round once where the contract says twice. GCC 12 warns of its own AVX-512
# header.
CXX_FLAGS = (
    "-std=c++20 -O3 -fPIC -fwrapv -DNDEBUG -fvisibility=hidden -ffp-contract=off "
    "-Wall -Wextra -Werror=return-type -Wno-maybe-uninitialized -Wno-uninitialized"
)
# at::parallel_for is OpenMP in a header. No library of it is linked: the functions
# come with libtorch_cpu.so, so that ops run on torch's threads and need no libgomp of the system.
BINDING_FLAGS = "-fopenmp"
NVCC_FLAGS = "-std=c++17 -O3 -lineinfo -Xcompiler -fPIC,-fvisibility=hidden"
# Some compilers link libstdc++ statically. Were its symbols exported, those of the process's own
# libstdc++ would replace some: an error message lost its numbers, or the process crashed.
LINK_FLAGS = "-Wl,-rpath,'$$ORIGIN' -Wl,--exclude-libs,ALL"
RULES = """\
ninja_required_version = 1.5
rule cxx
  command = $cxx -MMD -MF $out.d -I{csrc} $cxxflags $flags -c $in -o $out
  description = $cxx $out
  depfile = $out.d
  deps = gcc
rule nvcc
  command = $nvcc -MD -MF $out.d -I{csrc} $nvccflags -c $in -o $out
  description = nvcc $out
  depfile = $out.d
  deps = gcc
rule link
  command = $cxx -shared $linkflags -Wl,-soname,$soname $in -o $out $libraries $ldflags
  description = link $out
rule nvlink
  command = $nvcc -shared -cudart=static -Xlinker -soname,$soname,--exclude-libs,ALL $in -o $out
  description = link $out
"""


def sources(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in CSRC.glob(pattern))


class Graph:
    """Lines of a ninja file for libraries in `build`/lib."""

    def __init__(self, build: Path, nvcc: Path | None) -> None:
        self.libraries: list[Path] = []
        self._build, self._nvcc = build, nvcc
        flags = f"{CXX_FLAGS} {os.environ.get('CXXFLAGS', '')}"
        self._lines = [
            *(f"builddir = {build}", f"cxx = {find_cxx()}", f"cxxflags = {flags}"),
            *(f"linkflags = {LINK_FLAGS}", f"ldflags = {os.environ.get('LDFLAGS', '')}"),
            f"nvcc = {nvcc}",
            f"nvccflags = {NVCC_FLAGS} {' '.join(architecture_flags()) if nvcc else ''}",
            RULES.format(csrc=CSRC),
        ]

    def _object(self, source: Path, folder: str, flags: str) -> Path:
        base = CSRC if source.is_relative_to(CSRC) else self._build
        target = self._build / folder / f"{source.relative_to(base)}.o"
        rule = "nvcc" if source.suffix == ".cu" else "cxx"
        self._lines += [f"build {target}: {rule} {source}", f"  flags = {flags}"]
        return target

    def joined(self, name: str, paths: Iterable[Path]) -> Path:
        """One source that includes `paths`: most of their compile time is torch's headers, once."""
        path = self._build / f"{name}.cpp"
        text = "".join(f'#include "{source}"\n' for source in paths)
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path

    def library(
        self,
        name: str,
        paths: Iterable[Path],
        *,
        folder: str,
        flags: str = "",
        libraries: Sequence[str] = (),
        uses: Sequence[Path] = (),
    ) -> Path:
        """Adds a shared library of `paths`, which `uses` others of the graph."""
        objects = [self._object(path, folder, flags) for path in paths]
        rule = "nvlink" if any(path.suffixes[-2:] == [".cu", ".o"] for path in objects) else "link"
        target = self._build / "lib" / f"{name}.so"
        used = " ".join(map(str, uses))
        self._lines += [
            f"build {target}: {rule} {' '.join(map(str, objects))} | {used}",
            f"  soname = {target.name}",
            f"  libraries = {' '.join([used, *libraries])}",
        ]
        self.libraries.append(target)
        return target

    def run(self) -> None:
        self._build.mkdir(parents=True, exist_ok=True)
        path = self._build / "build.ninja"
        text = "\n".join([*self._lines, ""])
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        jobs = os.environ.get("MAX_JOBS") or str(_affordable_jobs())
        done = subprocess.run([find_ninja(), "-f", str(path), "-j", jobs], cwd=ROOT)
        if done.returncode != 0:
            sys.exit("farpoint-ops: compiling the ops failed, see above")


def _affordable_jobs() -> int:
    """Compiling one file of a binding takes about a gigabyte."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(os.cpu_count() or 1, free >> 30))


def _add_binding(graph: Graph, torch: TorchPackage, cpu: Path, cuda: Path | None) -> None:
    name = "libfarpoint_torch_{}_{}".format(*torch.minor)
    includes = " ".join(f"-isystem{path}" for path in torch.includes)
    # The version compiles anew for another torch in the same place.
    flags = f"{BINDING_FLAGS} -DFARPOINT_TORCH={torch.version} {includes}"
    libraries = [f"-L{torch.root / 'lib'}", "-ltorch_cpu", "-lc10"]
    folder = name.removeprefix("libfarpoint_")
    common = {"folder": folder, "flags": flags, "libraries": libraries}
    glue = [
        graph.joined("binding_cpu", sources("*.cpp", "cpu/*.cpp")),
        graph.joined("binding_autograd", sources("autograd/*.cpp")),
    ]
    graph.library(name, glue, uses=[cpu], **common)
    if cuda:
        graph.library(f"{name}_cuda", sources("cuda/**/*.cpp"), uses=[cuda], **common)


def build_libraries(torches: Sequence[TorchPackage], build: Path) -> list[Path]:
    """Compiles changed files in `build`; returns the libraries."""
    nvcc = choose_nvcc(torches)
    graph = Graph(build, nvcc)
    cpu = graph.library("libfarpoint_cpu", sources("cpu/kernels/**/*.cpp"), folder="cpu")
    kernels = sources("cuda/**/*.cu") if nvcc else []
    cuda = graph.library("libfarpoint_cuda", kernels, folder="cuda") if nvcc else None
    for torch in torches:
        _add_binding(graph, torch, cpu, cuda)
    graph.run()
    return graph.libraries
