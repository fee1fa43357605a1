"""Whatever a decoder or the file system raises, as one error that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farpoint.errors import CloudFileError

# What ends a program on purpose. Anything else that is no Exception comes from a library: a panic
# of Rust arrives as a BaseException.
_MEANT = (KeyboardInterrupt, SystemExit, GeneratorExit)
_PLAIN = (ValueError, EOFError)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turns what goes wrong with a file into a CloudFileError."""
    try:
        yield
    except (CloudFileError, *_MEANT):
        raise
    except BaseException as error:
        raise CloudFileError(_sentence(error), path=path) from error


def _sentence(error: BaseException) -> str:
    """One line: of our own errors what they say, of others also what they are."""
    if isinstance(error, MemoryError):
        return f"does not fit in memory{': ' * bool(str(error))}{error}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    said = " ".join(str(error).split()) or type(error).__name__
    return said if isinstance(error, _PLAIN) else f"damaged: {said} ({type(error).__name__})"
