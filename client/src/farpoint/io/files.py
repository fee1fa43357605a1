"""Atomic writes, optional packages, and errors that name the file."""

import importlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from farpoint.errors import CloudFileError, MissingFileError

# Anything else that is no Exception comes from a library: a panic of Rust is a BaseException.
_INTENDED = (KeyboardInterrupt, SystemExit, GeneratorExit)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name next to `path`; the file written there becomes `path`.

    If the block fails the new file is removed, and what was at `path` before is untouched.
    """
    mode = check_target(path)
    with tempfile.TemporaryDirectory(prefix=".farpoint-", dir=path.parent) as folder:
        part = Path(folder) / path.name
        yield part
        if mode is not None:  # a file that is replaced hands on its permissions
            with suppress(FileNotFoundError):
                os.chmod(part, mode & 0o7777)
        os.replace(part, path)


def check_target(path: Path) -> int | None:
    """The mode of a writable file; None for a new name."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ValueError("an output must be a regular file or a new name")
    return mode


def require(package: str, what: str, extra: str = "io") -> Any:
    """An optional package as a module; raises ValueError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ValueError(
            f"{what} needs the package {name}: pip install 'farpoint[{extra}]'"
        ) from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turns failures of decoders and of the file system into a CloudFileError with the path."""
    try:
        yield
    except (CloudFileError, *_INTENDED):
        raise
    except FileNotFoundError as error:
        raise MissingFileError(_sentence(error), path=path) from error
    except BaseException as error:
        raise CloudFileError(_sentence(error), path=path) from error


def _sentence(error: BaseException) -> str:
    """One line: the message of our errors, and also the type of others."""
    if isinstance(error, MemoryError):
        return f"does not fit in memory{': ' * bool(str(error))}{error}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    message = " ".join(str(error).split()) or type(error).__name__
    is_ours = isinstance(error, ValueError | EOFError)
    return message if is_ours else f"damaged: {message} ({type(error).__name__})"
