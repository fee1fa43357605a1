"""Headers that bindings and kernels share export what they declare from the kernels' libraries.

The import of the ops finds what is missing on the CPU; the CUDA binding is not built everywhere.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
GLUE = [*CSRC.glob("cpu/*.*"), *CSRC.glob("cuda/**/*.cpp"), CSRC / "cuda/common/torch_glue.h"]
KERNELS = [*CSRC.glob("cpu/kernels/**/*.cpp"), *CSRC.glob("cuda/**/*.cu")]
INCLUDE = re.compile(r'^#include "((?:cpu/kernels|cuda)/[^"]+\.h)"', re.MULTILINE)


def included(sources: Iterable[Path]) -> set[str]:
    return {name for path in sources for name in INCLUDE.findall(path.read_text())}


@pytest.mark.parametrize("name", sorted(included(GLUE) & included(KERNELS)))
def test_what_a_binding_calls_is_exported(name: str) -> None:
    text = (CSRC / name).read_text()
    opened = "#pragma GCC visibility push(default)\nnamespace farpoint::" in text
    assert opened, f"{name}: no `#pragma GCC visibility push(default)` before its namespace"
    assert text.endswith("#pragma GCC visibility pop\n")
