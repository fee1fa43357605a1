"""Files that the arguments name: paths, folders, patterns, standard input, and URLs of fsspec."""

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from farpoint.errors import CloudFileError
from farpoint.io.files import naming, require
from farpoint.io.registry import is_cloud_file

STDIN = "-"


@dataclass(frozen=True)
class Input:
    """A file to read.

    Attributes:
        location: a path, a URL of fsspec, or "-".
        relative: where its output goes within a folder.
    """

    location: str
    relative: PurePosixPath

    @property
    def is_remote(self) -> bool:
        """Whether fsspec has to bring it."""
        return "://" in self.location


def expand(words: list[str], recursive: bool) -> list[Input]:
    """The files that the arguments name, each once, those of a folder in order of name."""
    found = [one for word in words for one in _expand_one(word, recursive)]
    return list({one.location: one for one in found}.values()) if len(words) < len(found) else found


def _expand_one(word: str, recursive: bool) -> list[Input]:
    if word == STDIN:
        return [Input(STDIN, PurePosixPath("stdin"))]
    if "://" in word:
        return _expand_remote(word, recursive)
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


def _expand_remote(word: str, recursive: bool) -> list[Input]:
    with naming(Path(word)):
        system, root = _file_system(word)
        if glob.has_magic(root):
            names = sorted(system.glob(root))
        elif system.isdir(root):
            names = sorted(system.find(root, maxdepth=None if recursive else 1))
        else:
            return [Input(word, PurePosixPath(PurePosixPath(root).name))]
    names = [PurePosixPath(name) for name in names if is_cloud_file(Path(name))]
    if not names:
        raise CloudFileError("no cloud files here", path=word)
    scheme = word.partition("://")[0]
    return [
        Input(f"{scheme}://{str(name).lstrip('/')}", PurePosixPath(name.name)) for name in names
    ]


def _file_system(url: str) -> tuple[Any, str]:
    fsspec = require("fsspec", f"A path like {url.partition('://')[0]}://")
    try:
        system, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ValueError(str(error)) from error
    return system, root


@contextmanager
def local_copy(source: Input, suffix: str | None) -> Iterator[Path]:
    """A path that decoders can open: the input's own, or that of a temporary copy."""
    if source.location != STDIN and not source.is_remote:
        yield Path(source.location)
        return
    with tempfile.TemporaryDirectory(prefix="farpoint-") as folder:
        path = Path(folder) / (source.relative.name if source.is_remote else f"stdin{suffix or ''}")
        with naming(Path(source.location)):
            if source.is_remote:
                system, root = _file_system(source.location)
                system.get_file(root, str(path))
            else:
                with path.open("wb") as stream:
                    shutil.copyfileobj(sys.stdin.buffer, stream)
        try:
            yield path
        except CloudFileError as error:  # the copy's name tells the caller nothing
            raise CloudFileError(str(error).replace(str(path), source.location)) from error


def put_remote(path: Path, url: str) -> None:
    """Copies a file to a URL of fsspec."""
    with naming(Path(url)):
        system, root = _file_system(url)
        system.makedirs(str(PurePosixPath(root).parent), exist_ok=True)
        system.put_file(str(path), root)


def exists(location: str) -> bool:
    """Whether a file is there already."""
    if "://" not in location:
        return Path(location).exists()
    with naming(Path(location)):
        system, root = _file_system(location)
        return bool(system.exists(root))
