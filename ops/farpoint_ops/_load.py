"""Import of the compiled extension; where that fails, one sentence says what to do."""

import importlib

import torch

_REMEDY = "run `make ext` to build them for the torch that is installed"


def load() -> None:
    """Register the compiled ops with torch.

    Raises:
        ImportError: The extension is missing, or was built for another torch.
    """
    try:
        extension = importlib.import_module("farpoint_ops._C")
    except ModuleNotFoundError as error:
        raise ImportError(f"The compiled ops of farpoint_ops are missing: {_REMEDY}") from error
    except ImportError as error:
        raise ImportError(
            f"The compiled ops of farpoint_ops do not load with torch {torch.__version__}: "
            f"{_REMEDY}"
        ) from error
    if extension.torch_version != torch.__version__:
        raise ImportError(
            f"The compiled ops of farpoint_ops were built for torch {extension.torch_version}, "
            f"not for {torch.__version__}: {_REMEDY}"
        )
