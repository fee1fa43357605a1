"""Compiles every CUDA kernel for each architecture and checks its glue, without a GPU.

Fails when a farthest point sampling kernel spills or has anything else in local memory.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from native.compilers import find_nvcc

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "csrc"
SOURCES = INCLUDE / "cuda"
BUILD = ROOT / "build" / "cuda"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
JOBS = 2
NVCC_FLAGS = ("-O3", "-std=c++17", "-lineinfo", "-Xptxas", "-v", f"-I{INCLUDE}")
STACK = re.compile(r"(\d+) bytes stack frame")


def is_fresh(output: Path, source: Path) -> bool:
    headers = (*INCLUDE.glob("*.h"), *SOURCES.rglob("*.h"), *SOURCES.rglob("*.cuh"))
    newest = max(p.stat().st_mtime for p in (source, Path(__file__), *headers))
    return output.exists() and output.stat().st_mtime > newest


def run(command: list[str], source: Path, log: Path) -> str:
    """The command's output, kept in `log`; a failed command ends the check."""
    if is_fresh(log, source):
        return log.read_text()
    result = subprocess.run(command, capture_output=True, text=True)
    output = result.stdout + result.stderr
    if result.returncode != 0 or "warning" in output:
        raise SystemExit(f"{' '.join(command)}\n{output}")
    log.write_text(output)
    return output


def demangle(symbol: str) -> str:
    full = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout
    name = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|farpoint::cuda::|^void ", "", full)
    return re.sub(r"\(int\)", "", name).split("(")[0].strip()


def kernels_on_stack(log: str, source: Path) -> Iterator[str]:
    """Names of the kernels that use local memory, which spills are a part of."""
    for block in log.split("Compiling entry function ")[1:]:
        symbol, stack = block.split("'")[1], STACK.search(block)
        if not stack:
            raise SystemExit(f"{source}: ptxas reported no stack frame for {symbol}")
        if int(stack[1]):
            yield demangle(symbol)


def object_of(source: Path) -> Path:
    """A source's path below csrc/cuda without its suffix, as the build names its object."""
    return source.relative_to(SOURCES).with_suffix("")


def target_of(source: Path, suffix: str) -> Path:
    target = BUILD / f"{object_of(source)}.{suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def compile_kernels(nvcc: Path, source: Path, arch: str) -> list[str]:
    """Names of the sampling kernels that use local memory."""
    cubin = target_of(source, f"{arch}.cubin")
    command = [str(nvcc), "-cubin", f"-arch={arch}", *NVCC_FLAGS, "-o", str(cubin), str(source)]
    log = run(command, source, cubin.with_suffix(".log"))
    return list(kernels_on_stack(log, source)) if source.is_relative_to(SOURCES / "fps") else []


def check_glue(source: Path) -> None:
    """The torch side needs no CUDA header, so any build of torch can check it."""
    from torch.utils.cpp_extension import include_paths

    standard = ["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"]
    includes = [flag for path in include_paths() for flag in ("-isystem", path)]
    command = ["g++", "-fsyntax-only", *standard, f"-I{INCLUDE}", *includes, str(source)]
    run(command, source, target_of(source, "glue.log"))


def check_names() -> None:
    """An <op>.cu next to an <op>.cpp would build the same object, so it is <op>_kernel.cu."""
    sources = (p for p in SOURCES.rglob("*") if p.suffix in (".cu", ".cpp"))
    built = Counter(str(object_of(p)) for p in sources)
    twice = sorted(name for name, count in built.items() if count > 1)
    if twice:
        raise SystemExit(f"csrc/cuda: a .cu and a .cpp would build the same object: {twice}")


def main() -> None:
    check_names()
    nvcc = find_nvcc()
    if nvcc is None:
        print("check_cuda: no nvcc on PATH or in CUDA_HOME, kernels not compiled")
        return
    jobs = [(source, arch) for source in sorted(SOURCES.rglob("*.cu")) for arch in ARCHITECTURES]
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(check_glue, sorted(SOURCES.rglob("*.cpp"))))
        reports = list(pool.map(lambda job: compile_kernels(nvcc, *job), jobs))
    if local := {name for report in reports for name in report}:
        sys.exit(f"check_cuda: sampling kernels use local memory: {', '.join(sorted(local))}")


if __name__ == "__main__":
    main()
