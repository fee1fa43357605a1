"""Translates the kernels of a built libfarpoint_cuda.so for the software CUDA runtime.

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

from ptx import Kernel, identifier

HERE = Path(__file__).resolve().parent
EXECUTOR = HERE / "executor"
OBJECTS = HERE.parents[1] / "build" / "softgpu" / "kernels"
FLAGS = ("-std=c++17", "-fPIC", "-O1", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE")
INCLUDES = (f"-I{EXECUTOR}", f"-I{HERE}")
STRING = re.compile(r"^\.global \.align 1 \.b8 ([\w$]+)\[\d+\] = (\{[\d, ]*\});", re.MULTILINE)
DYNAMIC = re.compile(r"^\.extern \.shared \.align \d+ \.b8 (\w+)\[\];", re.MULTILINE)
ENTRY = re.compile(r"\.entry (\w+)\(([^)]*)\)([^{]*)\{")
DEBUG = re.compile(r"^\s*\.(loc|file|section)\b[^\n]*$", re.MULTILINE)
FAT_BINARY = 0xBA55ED50
PTX, MACHINE_CODE = 1, 2
REGISTERS = b"\x04\x2f\x08\x00"  # of a symbol, in .nv.info of a cubin
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


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


def translate(ptx: str, known: dict[str, tuple[int, int]]) -> str:
    """C++ of a module and a row of the table for each kernel; empty if it has none."""
    ptx = DEBUG.sub("", ptx)
    strings, dynamic = dict(STRING.findall(ptx)), next(iter(DYNAMIC.findall(ptx)), "")
    lines = ['#include "threads.h"', "namespace {"]
    lines += [f"const unsigned char {identifier(s)}[] = {v};" for s, v in strings.items()]
    rows = []
    for number, (name, parameters, directives, body) in enumerate(entries(ptx)):
        lines += [
            f"void entry{number}(const void* const* parameters) {{",
            "uint64_t argument0 = 0;",
        ]
        lines += Kernel(name, body, set(strings), dynamic).statements()
        lines += ["static_cast<void>(parameters), static_cast<void>(argument0);", "}"]
        sizes = parameter_sizes(parameters)
        lines += [f"const unsigned sizes{number}[] = {{{', '.join(map(str, [*sizes, 0]))}}};"]
        bound = re.search(r"\.maxntid (\d+)", directives)
        registers, shared = known[name]
        limits = f"{len(sizes)}, {registers}, {shared}, {bound[1] if bound else 0}"
        rows.append(f'{{"{name}", entry{number}, sizes{number}, {limits}}}')
    table = f"const executor::Table table({{{', '.join(rows)}}});"
    return "\n".join([*lines, table, "}", ""]) if rows else ""


def compile_module(number: int, code: str) -> Path:
    """The object of a module, kept where its C++ is the same."""
    source, target = OBJECTS / f"kernels{number}.cpp", OBJECTS / f"kernels{number}.o"
    newest = max(header.stat().st_mtime for header in EXECUTOR.glob("*.h"))
    fresh = target.exists() and source.exists() and target.stat().st_mtime > newest
    if not fresh or source.read_text() != code:
        target.unlink(missing_ok=True)
        source.write_text(code)
        subprocess.run(["g++", "-c", *FLAGS, *INCLUDES, source, "-o", target], check=True)
    return target


def build(library: Path, target: Path) -> int:
    """Makes `target` of the library's kernels; how many there are."""
    OBJECTS.mkdir(parents=True, exist_ok=True)
    found = list(images(library))
    known: dict[str, tuple[int, int]] = {}
    for kind, data in found:
        if kind == MACHINE_CODE:
            known |= resources(data)
    texts = [data.rstrip(b"\0").decode() for kind, data in found if kind == PTX]
    modules = [code for text in texts if (code := translate(text, known))]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_module, range(len(modules)), modules))
    sources = sorted(EXECUTOR.glob("*.cpp"))
    command = ["g++", "-shared", *FLAGS, *INCLUDES, *sources, *objects, "-o", target]
    subprocess.run(command, check=True)
    return len(known)


if __name__ == "__main__":
    print(f"{build(*map(Path, sys.argv[1:]))} kernels")
