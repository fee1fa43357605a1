"""Optional imports: the packages that benchmarks compare with where they are installed."""

import importlib
from collections.abc import Iterable
from functools import cache
from types import ModuleType


@cache
def _load(name: str) -> ModuleType | str:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        return str(error).splitlines()[0]


def module(name: str) -> ModuleType | None:
    """The module, or None where it is not installed or does not load here."""
    loaded = _load(name)
    return None if isinstance(loaded, str) else loaded


def missing(names: Iterable[str]) -> dict[str, str]:
    """Those of the modules that do not load, and why."""
    loaded = {name: _load(name) for name in names}
    return {name: why for name, why in loaded.items() if isinstance(why, str)}
