"""Kernels of a built libfarpoint_cuda.so as a library that the software CUDA runtime executes.

PTX and registers are read from the fat binaries in the library itself, so that what runs is what
nvcc made for a card.
"""

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.cuda.ptx.kernel import Kernel, identifier  # noqa: E402
from tests.support.cuda.ptx.module import DYNAMIC, STRING  # noqa: E402

HERE = Path(__file__).resolve().parent
MODEL = ROOT / "tests" / "ops" / "cuda" / "model"
FLAGS = ("-std=c++17", "-fPIC", "-O1", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE")
INCLUDES = (f"-I{MODEL / 'include'}", f"-I{MODEL}", f"-I{HERE}")
ENTRY = re.compile(r"\.entry (\w+)\(([^)]*)\)([^{]*)\{")
DEBUG = re.compile(r"^\s*\.(loc|file|section)\b[^\n]*$", re.MULTILINE)
FAT_BINARY = 0xBA55ED50
PTX, MACHINE_CODE = 1, 2
REGISTERS = b"\x04\x2f\x08\x00"  # of a symbol, in .nv.info of a cubin
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


class OnDevice(Kernel):
    """A kernel whose global memory is the runtime's."""

    _access = "SOFTGPU_LOAD"

    def _memory(self, words: list[str], kind: str, operands: list[str]) -> str:
        self._access = "SOFTGPU_LOAD" if words[0] == "ld" else "SOFTGPU_STORE"
        return super()._memory(words, kind, operands)

    def _atomic(self, words: list[str], kind: str, operands: list[str]) -> str:
        self._access = "SOFTGPU_ATOMIC"
        return super()._atomic(words, kind, operands)

    def _address(self, space: str, operand: str, size: str) -> str:
        address = super()._address(space, operand, size)
        if space in ("shared", "local"):
            return address
        return address.replace("ptx::checked(", "ptx::on_device(")[:-1] + f", {self._access})"


def images(library: Path) -> Iterator[tuple[int, bytes]]:
    """The kind and contents of each image of device code; the library must not be compressed."""
    data = library.read_bytes()
    at = data.find(struct.pack("<I", FAT_BINARY))
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        begin, end = at + header, at + header + size
        while begin < end:
            kind, own, length = struct.unpack_from("<HxxIQ", data, begin)
            yield kind, data[begin + own : begin + own + length]
            begin += own + length
        at = data.find(struct.pack("<I", FAT_BINARY), end)


def sections(cubin: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Name, contents and size of each section of a 64-bit ELF file."""
    table, entry, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, offset, size, *_ in headers:
        start = strings + name
        contents = b"" if kind == 8 else cubin[offset : offset + size]
        yield cubin[start : cubin.index(b"\0", start)].decode(), contents, size


def resources(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Registers of a thread and static shared memory of each kernel, by its mangled name."""
    found = {name: (contents, size) for name, contents, size in sections(cubin)}
    symbols, strings = found[".symtab"][0], found[".strtab"][0]
    info, result = found.get(".nv.info", (b"", 0))[0], {}
    at = info.find(REGISTERS)
    while at >= 0:
        symbol, registers = struct.unpack_from("<II", info, at + 4)
        start = struct.unpack_from("<I", symbols, symbol * 24)[0]
        name = strings[start : strings.index(b"\0", start)].decode()
        shared = found.get(f".nv.shared.{name}", (b"", 0))[1]
        result[name] = registers, shared
        at = info.find(REGISTERS, at + 12)
    return result


def entries(ptx: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, parameters, directives and body of each kernel."""
    for entry in ENTRY.finditer(ptx):
        end, depth = entry.end(), 1
        while depth:
            brace = re.compile("[{}]").search(ptx, end)
            end, depth = brace.end(), depth + (1 if brace[0] == "{" else -1)
        yield entry[1], entry[2], entry[3], ptx[entry.end() : end - 1]


def parameter_sizes(text: str) -> list[int]:
    sizes = []
    for parameter in filter(None, map(str.strip, text.split(","))):
        array = re.search(r"\.b8 \w+\[(\d+)\]", parameter)
        sizes.append(int(array[1]) if array else BYTES[re.search(r"\.[busf](\d+)\s", parameter)[1]])
    return sizes


def translate(ptx: str, known: dict[str, tuple[int, int]]) -> tuple[str, list[str]]:
    """C++ of a module, and a row of the table for each kernel."""
    ptx = DEBUG.sub("", ptx)
    strings, dynamic = dict(STRING.findall(ptx)), next(iter(DYNAMIC.findall(ptx)), "")
    lines = ['#include "executor.h"', "namespace {"]
    lines += [f"const unsigned char {identifier(s)}[] = {v};" for s, v in strings.items()]
    rows = []
    for number, (name, parameters, directives, body) in enumerate(entries(ptx)):
        lines += [
            f"void entry{number}(const void* const* parameters) {{",
            "uint64_t argument0 = 0;",
        ]
        lines += OnDevice(name, body, set(strings), dynamic).statements()
        lines += ["static_cast<void>(parameters), static_cast<void>(argument0);", "}"]
        sizes = parameter_sizes(parameters)
        lines += [f"const unsigned sizes{number}[] = {{{', '.join(map(str, [*sizes, 0]))}}};"]
        bound = re.search(r"\.maxntid (\d+)", directives)
        registers, shared = known[name]
        limits = f"{len(sizes)}, {registers}, {shared}, {bound[1] if bound else 0}"
        rows.append(f'{{"{name}", entry{number}, sizes{number}, {limits}}},')
    return "\n".join([*lines, "}"]), rows


def compile_module(number: int, ptx: str, known: dict[str, tuple[int, int]], folder: Path) -> Path:
    """The object of a module, kept where its C++ is the same."""
    code, rows = translate(ptx, known)
    table = f"extern const SoftgpuKernel table{number}[] = {{{' '.join(rows)} {{}}}};"
    source, target = folder / f"kernels{number}.cpp", folder / f"kernels{number}.o"
    text = f"{code}\n{table}\nextern const int count{number} = {len(rows)};\n"
    if not target.exists() or not source.exists() or source.read_text() != text:
        target.unlink(missing_ok=True)
        source.write_text(text)
        subprocess.run(["g++", "-c", *FLAGS, *INCLUDES, source, "-o", target], check=True)
    return target


def plugin(count: int) -> str:
    """C++ that joins the tables."""
    numbers = range(count)
    declared = [
        f"extern const SoftgpuKernel table{i}[]; extern const int count{i};" for i in numbers
    ]
    added = [f"all.insert(all.end(), table{i}, table{i} + count{i});" for i in numbers]
    return "\n".join(
        [
            *('#include "executor.h"', "#include <vector>", *declared),
            "static const std::vector<SoftgpuKernel>& kernels() {",
            "static std::vector<SoftgpuKernel> all;",
            *("if (all.empty()) {", *added, "}", "return all;", "}"),
            'extern "C" const SoftgpuPlugin softgpu_plugin = {',
            "kernels().data(), static_cast<int>(kernels().size()), softgpu_run};",
        ]
    )


def build(library: Path, target: Path, folder: Path) -> int:
    """Makes `target`; the number of its kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(images(library))
    known: dict[str, tuple[int, int]] = {}
    for kind, data in found:
        if kind == MACHINE_CODE:
            known |= resources(data)
    modules = [data.rstrip(b"\0").decode() for kind, data in found if kind == PTX]
    modules = [module for module in modules if ENTRY.search(module)]
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compile_module, i, m, known, folder) for i, m in enumerate(modules)]
        objects = [job.result() for job in jobs]
    (folder / "plugin.cpp").write_text(plugin(len(modules)))
    machine = [MODEL / "machine.cpp", *sorted(MODEL.glob("ptx/*.cpp"))]
    sources = [folder / "plugin.cpp", HERE / "executor.cpp", *machine]
    command = ["g++", "-shared", *FLAGS, *INCLUDES, *sources, *objects, "-o", target]
    subprocess.run(command, check=True)
    return len(known)


def main() -> None:
    library, target = map(Path, sys.argv[1:])
    print(f"{build(library, target, ROOT / 'build' / 'softgpu' / 'kernels')} kernels")


if __name__ == "__main__":
    main()
