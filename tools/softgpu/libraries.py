"""The libraries of CUDA that torch's CUDA build loads: the software runtime, and stand-ins.

A stand-in defines what torch links of a library, such as cuBLAS, and each of its functions refuses
by its name. Whatever the runtime lacks of libcudart is filled up in the same way.
"""

import json
import re
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=c++17", "-O2", "-g", "-fPIC", "-Wall", "-fvisibility=default")
RUNTIME = "libcudart.so.13"
# Symbols that carry no version, by how their names begin.
UNVERSIONED = {
    "nccl": "libnccl.so.2",
    "curand": "libcurand.so.10",
    "cusparseLt": "libcusparseLt.so.0",
    "cuFile": "libcufile.so.0",
    "nvrtc": "libnvrtc.so.13",
    "cupti": "libcupti.so.13",
    "nvshmem": "libnvshmem_host.so.3",
    "cu": "libcuda.so.1",
}


def symbols(library: Path, *options: str) -> set[str]:
    """Names of a library's dynamic symbols, with @version where they have one."""
    text = subprocess.run(["nm", "-D", *options, library], capture_output=True, text=True).stdout
    return {line.split()[-1].replace("@@", "@") for line in text.splitlines()}


def wanted(torch: Path) -> dict[str, set[str]]:
    """Symbols that torch's libraries want of CUDA's, by library."""
    found: dict[str, set[str]] = defaultdict(set)
    for library in torch.glob("lib/*.so"):
        for symbol in symbols(library, "--undefined-only"):
            name, _, version = symbol.partition("@")
            if version.startswith("lib"):
                found[version].add(symbol)
            elif version == "NVSHMEM":
                found["libnvshmem_host.so.3"].add(symbol)
            elif not version and re.match(
                r"cu[A-Z]|cu(rand|sparseLt|pti)|nccl|nvrtc|nvshmem", name
            ):
                owner = next(lib for prefix, lib in UNVERSIONED.items() if name.startswith(prefix))
                found[owner].add(symbol)
        for name in needed(library):
            if re.match(r"lib(cu|nv|nccl)", name):
                found[name] |= set()
    return found


def needed(library: Path) -> set[str]:
    text = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    return set(re.findall(r"NEEDED\).*\[(.+)\]", text))


def refusing(names: set[str]) -> str:
    """C of functions that refuse by their name."""
    functions = (f'int {n}(void) {{ return softgpu_missing("{n}"); }}' for n in sorted(names))
    return "\n".join(["int softgpu_missing(const char*);", *functions, ""])


def version_script(by_version: dict[str, set[str]], target: Path) -> Path:
    blocks = [f"{v} {{ global: {'; '.join(sorted(n))}; }};" for v, n in by_version.items() if n]
    script = target.with_suffix(".map")
    script.write_text("\n".join([*blocks, ""]))
    return script


def build_stand_in(
    name: str, wanted_symbols: set[str], runtime: Path, folder: Path, target: Path
) -> None:
    by_version: dict[str, set[str]] = defaultdict(set)
    for symbol in wanted_symbols:
        plain, _, version = symbol.partition("@")
        by_version[version].add(plain)
    code = folder / f"{name}.c"
    names = {n for group in by_version.values() for n in group}
    code.write_text(refusing(names))
    by_version.pop("", None)
    script = version_script(by_version, folder / name)
    versions = [f"-Wl,--version-script,{script}"] if script.stat().st_size > 1 else []
    command = ["gcc", "-shared", "-fPIC", code, runtime, *versions, f"-Wl,-soname,{name}"]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN", "-o", target / name], check=True)


def _compile(source: Path, folder: Path, cuda: Path) -> Path:
    target = folder / f"{source.parent.name}_{source.stem}.o"
    newest = max(p.stat().st_mtime for p in [source, *HERE.rglob("*.h")])
    if not target.exists() or target.stat().st_mtime < newest:
        includes = (HERE, HERE / "runtime", cuda / "include")
        command = ["g++", "-c", *FLAGS, *(f"-I{path}" for path in includes), source, "-o", target]
        subprocess.run(command, check=True)
    return target


def build_runtime(cuda: Path, wanted_symbols: set[str], folder: Path, target: Path) -> Path:
    """libcudart.so.13 in `target`."""
    sources = sorted(HERE.glob("runtime/**/*.cpp"))
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: _compile(source, folder, cuda), sources))
    text = subprocess.run(["nm", "-g", "--defined-only", *objects], capture_output=True, text=True)
    defined = {line.split()[-1] for line in text.stdout.splitlines() if " T " in line}
    rest = folder / "rest.c"
    rest.write_text(refusing({s.partition("@")[0] for s in wanted_symbols} - defined))
    script = folder / "runtime.map"
    script.write_text(
        f"{RUNTIME} {{ global: cuda*; __cuda*; }};\nsoftgpu {{ global: softgpu_*; local: *; }};\n"
    )
    subprocess.run(["gcc", "-c", "-fPIC", rest, "-o", folder / "rest.o"], check=True)
    command = ["g++", "-shared", *objects, folder / "rest.o", "-o", target / RUNTIME]
    command += [f"-Wl,-soname,{RUNTIME}", f"-Wl,--version-script,{script}", "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return target / RUNTIME


def build(torch: Path, cuda: Path, folder: Path, target: Path) -> None:
    """Makes every library that torch's own load in `target`; `folder` keeps the objects."""
    folder.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    kept = folder / "wanted.json"
    if not kept.exists():
        kept.write_text(json.dumps({name: sorted(found) for name, found in wanted(torch).items()}))
    known = {name: set(found) for name, found in json.loads(kept.read_text()).items()}
    runtime = build_runtime(cuda, known.pop(RUNTIME), folder, target)
    for name, names in known.items():
        if name != "libcuda.so.1" and not (target / name).exists():
            build_stand_in(name, names, runtime, folder, target)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        command = ["gcc", "-shared", "-fPIC", HERE / "drivers.c", runtime, "-Wl,-rpath,$ORIGIN"]
        subprocess.run([*command, f"-Wl,-soname,{name}", "-o", target / name], check=True)
