"""Loads the compiled ops for the installed torch; a failure is one sentence with the reason.

lib/ holds the kernels and a thin binding for each minor version of torch, since C++ of one minor
does not run with another.
"""

from pathlib import Path

import torch

LIBRARIES = Path(__file__).parent / "lib"
_PREFIX = "libfarpoint_torch_"
_FROM_SOURCE = (
    "pip install --no-cache-dir --no-deps --force-reinstall --no-binary farpoint-ops farpoint-ops"
)


def _remedy() -> str:
    """The command that compiles a binding, in a checkout or in an installed package."""
    in_checkout = (Path(__file__).parents[2] / "csrc").is_dir()
    command = "make ext" if in_checkout else _FROM_SOURCE
    return f"run `{command}` to build for the torch that is installed"


def _bound_versions() -> list[str]:
    """The minor versions of torch with bindings, oldest first."""
    names = (path.stem.removeprefix(_PREFIX) for path in LIBRARIES.glob(f"{_PREFIX}*.so"))
    minors = [name.split("_") for name in names if not name.endswith("_cuda")]
    return [".".join(minor) for minor in sorted(minors, key=lambda minor: [int(n) for n in minor])]


def _binding() -> Path:
    """Path of the binding for the installed torch."""
    minor = "_".join(torch.__version__.split(".")[:2])
    binding = LIBRARIES / f"{_PREFIX}{minor}.so"
    if binding.is_file():
        return binding
    versions = _bound_versions()
    if not versions:
        raise ImportError(f"The compiled ops of farpoint_ops are missing: {_remedy()}")
    raise ImportError(
        f"farpoint_ops is compiled for torch {', '.join(versions)}, not for {torch.__version__}: "
        f"{_remedy()}"
    )


def load() -> None:
    """Registers the compiled ops with torch, with those for CUDA if torch is a CUDA build.

    Raises:
        ImportError: There is no binding for this torch, or it does not load.
    """
    binding = _binding()
    cuda = binding.with_name(f"{binding.stem}_cuda.so")
    try:
        torch.ops.load_library(binding)  # type: ignore[no-untyped-call]
        if torch.version.cuda is not None and cuda.is_file():
            torch.ops.load_library(cuda)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ImportError(
            f"The compiled ops of farpoint_ops do not load with torch {torch.__version__} "
            f"({error.__cause__ or error}): {_remedy()}"
        ) from error
