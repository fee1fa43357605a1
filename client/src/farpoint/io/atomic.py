"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` with the same suffix; what was written there becomes `path`.

    If the block fails the new file is removed, and what was at `path` before is untouched.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(path.parent))
    with tempfile.TemporaryDirectory(prefix=".farpoint-", dir=path.parent) as folder:
        part = Path(folder) / path.name
        yield part
        with suppress(FileNotFoundError):  # a file that is replaced hands on its permissions
            os.chmod(part, path.stat().st_mode & 0o7777)
        os.replace(part, path)
