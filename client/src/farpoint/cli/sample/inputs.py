"""Input files: paths, folders, patterns and standard input."""

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from farpoint.errors import CloudFileError
from farpoint.io.files import naming
from farpoint.io.registry import is_cloud_file

STDIN = "-"


@dataclass(frozen=True)
class Input:
    """A file to read.

    Attributes:
        location: a path or "-".
        relative: where its output goes within a folder.
    """

    location: str
    relative: PurePosixPath


def expand(words: list[str], recursive: bool) -> list[Input]:
    """The distinct input files; those of a folder in order of name."""
    found = [one for word in words for one in _expand_one(word, recursive)]
    return list({one.location: one for one in found}.values()) if len(words) < len(found) else found


def _expand_one(word: str, recursive: bool) -> list[Input]:
    if word == STDIN:
        return [Input(STDIN, PurePosixPath("stdin"))]
    path = Path(word)
    if path.is_dir() and not (path / "metadata.yaml").exists():  # no recording of ROS
        pattern = "**/*" if recursive else "*"
        inside = sorted(p for p in path.glob(pattern) if p.is_file() and is_cloud_file(p))
        if not inside:
            hint = "" if recursive else " (-r looks in its folders too)"
            raise CloudFileError(f"no cloud files in this folder{hint}", path=path)
        return [Input(str(p), PurePosixPath(p.relative_to(path).as_posix())) for p in inside]
    if not path.exists() and glob.has_magic(word):
        matches = sorted(filter(os.path.isfile, glob.glob(word, recursive=recursive)))
        if not matches:
            raise CloudFileError("no file matches this pattern", path=word)
        return [Input(match, PurePosixPath(Path(match).name)) for match in matches]
    return [Input(word, PurePosixPath(path.name))]


@contextmanager
def local_copy(source: Input, suffix: str | None) -> Iterator[Path]:
    """A path that decoders can open: the input's own, or that of a copy of standard input."""
    if source.location != STDIN:
        yield Path(source.location)
        return
    with tempfile.TemporaryDirectory(prefix="farpoint-") as folder:
        path = Path(folder) / f"stdin{suffix or ''}"
        with naming(Path(STDIN)), path.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        try:
            yield path
        except CloudFileError as error:  # the copy's name tells the caller nothing
            raise CloudFileError(str(error).replace(str(path), STDIN)) from error
