"""Prepares torch for the software CUDA runtime as soon as it is imported.

Installed with torch in the runtime's environment, whose Python imports it at its start.
"""

import ctypes
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

LIBRARIES = Path(__file__).parent / "nvidia" / "cu13" / "lib"


def prepare(torch: ModuleType) -> None:
    """Ops of torch run on the CPU, and none of them chooses a library of kernels."""
    library = ctypes.CDLL(str(LIBRARIES / "libsoftgpu_torch.so"))
    library.softgpu_take_over()
    torch.backends.cudnn.enabled = False
    for name in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(False)
    torch.cuda._lazy_call(library.softgpu_watch_blocks)


class Finder(importlib.abc.MetaPathFinder):
    """Finds torch as Python would, once, and prepares it."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            prepare(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
