"""Optional packages: imported when a file needs them, asked for in one sentence if absent."""

import importlib
from typing import Any


def require(package: str, what: str, extra: str = "io") -> Any:
    """The package as a module.

    Args:
        package: its import name.
        what: what needs it, to begin the sentence with.
        extra: the extra of this distribution that installs it.

    Raises:
        ValueError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ValueError(
            f"{what} needs the package {name}: pip install 'farpoint[{extra}]'"
        ) from error
