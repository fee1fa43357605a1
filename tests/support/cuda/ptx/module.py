"""PTX of a source of csrc/cuda as C++ for the CPU model.

The C++ includes the CUDA source, whose launchers run as they stand, and registers a translation of
each kernel in it, so that a launch executes what nvcc made.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.cuda.ptx.kernel import Kernel, identifier

ENTRY = re.compile(r"\.entry (\w+)\(([^)]*)\)[^{]*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
STRING = re.compile(r"^\.global \.align 1 \.b8 ([\w$]+)\[\d+\] = (\{[\d, ]*\});", re.MULTILINE)
DYNAMIC = re.compile(r"^\.extern \.shared \.align \d+ \.b8 (\w+)\[\];", re.MULTILINE)


def demangled(names: list[str]) -> list[str]:
    """C++ names as the source itself would write them."""
    result = subprocess.run(["c++filt", *names], capture_output=True, text=True, check=True)
    return result.stdout.replace("(anonymous namespace)::", "").splitlines()


def registration(entry: int, signature: str) -> str:
    """C++ that makes a launch of the kernel with this signature run `entry<n>`."""
    name = signature[: signature.rindex("(")].removeprefix("void ")
    pointer = f"static_cast<void (*){signature[signature.rindex('(') :]}>(&{name})"
    return (
        f"const ptx::Translated t{entry}(reinterpret_cast<const void*>({pointer}), entry{entry});"
    )


@dataclass(frozen=True)
class Fault:
    """An instruction that is replaced, to see whether tests notice.

    Args:
        instruction: A regular expression, up to its semicolon.
        number: Which of those in a kernel that match.
        replacement: A template of `re.Match.expand`; by default the instruction is left out.
    """

    instruction: str
    number: int = 0
    replacement: str = ""

    def planted(self, body: str) -> str:
        """The body with this fault.

        Raises:
            IndexError: it has no such instruction.
        """
        found = list(re.finditer(rf"^\s*{self.instruction};", body, re.MULTILINE))[self.number]
        return f"{body[: found.start()]}\n{found.expand(self.replacement)}{body[found.end() :]}"


def translate(
    ptx: str,
    source: Path,
    kernel: str = "",
    fault: Fault | None = None,
) -> str:
    """C++ of the kernels of a module.

    Args:
        ptx: What nvcc made of the source.
        source: The CUDA source.
        kernel: Part of the mangled name; kernels without it run from source.
        fault: Planted in each.

    Raises:
        PtxError: something in it is not known.
    """
    strings = dict(STRING.findall(ptx))
    dynamic = next(iter(DYNAMIC.findall(ptx)), "")
    lines = [f'#include "{source}"', '#include "ptx/threads.h"', "namespace {"]
    lines += [f"const unsigned char {identifier(s)}[] = {v};" for s, v in strings.items()]
    entries = [entry for entry in ENTRY.findall(ptx) if kernel in entry[0]]
    for number, (name, _, body) in enumerate(entries):
        body = fault.planted(body) if fault else body
        lines += [
            f"void entry{number}(const void* const* parameters) {{",
            "uint64_t argument0 = 0;",
        ]
        lines += Kernel(name, body, set(strings), dynamic).statements()
        lines += ["static_cast<void>(parameters), static_cast<void>(argument0);", "}"]
    names = demangled([name for name, _, _ in entries]) if entries else []
    lines += [registration(number, name) for number, name in enumerate(names)]
    return "\n".join([*lines, "}  // namespace", ""])
