"""The content of a .pt2 archive, read without torch and without unpickling anything.

An archive is a zip file. Of what torch.export.save writes, the graph is JSON and the weights are
raw bytes, but example inputs are a pickle, and so are weights and constants that are no plain
tensors. The former are left out when a program is loaded; an archive with the latter is refused.
"""

import io
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from farpoint_models.checkpoint import open_regular
from farpoint_models.programs.manifest import FILE_NAME, Manifest, parse_manifest
from farpoint_models.programs.tensors import ProgramError, first_line

# Of a graph, a manifest or a list of records. The graph of a thousand layers has 2 MB.
MAX_JSON = 1 << 26
ENCRYPTED = 1
GRAPH = "models/model.json"
# Compiled code, which torch would load.
COMPILED = re.compile("data/aotinductor/", re.IGNORECASE)
EXAMPLE_INPUTS = "data/sample_inputs/model.pt"
# torch's names of records that it unpickles: weights of older versions, and objects.
_PICKLES = re.compile(
    r"(data/(weights|constants)/(.*\.pt|(custom|opaque)_obj_.*)|(.*/)?data\.pkl)", re.IGNORECASE
)
# Not ops: arithmetic of sizes.
_ARITHMETIC = re.compile(r"_operator\.\w+|math\.\w+|torch\._?sym_\w+|builtins\.(max|min)")
_OP = re.compile(r"(?:torch\.ops\.)?(\w+)(?:\.|::)(\w+)(?:\.(\w+))?")
# Namespaces of ops that graphs may call; no private op of farpoint, which takes addresses.
_NAMESPACES = ("aten", "prims", "higher_order", "farpoint")


@dataclass(frozen=True)
class Archive:
    """An archive with known records; nothing is loaded."""

    path: Path
    file: zipfile.ZipFile
    """Opened once, so that the checked file is the loaded one."""
    root: str
    """The folder that all records are in."""
    names: frozenset[str]
    """Of the records, below the root."""

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the file next to it, else of the archive; raises ProgramError."""
        sidecar = self.path.with_name(f"{self.path.name}.json")
        if sidecar.exists():
            with open_regular(sidecar, ProgramError) as file:
                return parse_manifest(file.read(MAX_JSON))
        if f"extra/{FILE_NAME}" not in self.names:
            raise ProgramError(
                f"expected a manifest, {sidecar.name} or {FILE_NAME} in the extra files of the "
                "archive, got neither: farpoint export writes one"
            )
        return parse_manifest(self.read(f"extra/{FILE_NAME}"))

    def read(self, name: str) -> bytes:
        """A text record."""
        size = self.file.getinfo(self.root + name).file_size
        if size > MAX_JSON:
            raise ProgramError(f"{name}: expected at most {MAX_JSON} bytes of JSON, got {size}")
        return self.file.read(self.root + name)

    def without_example_inputs(self) -> io.BytesIO:
        """The archive with an empty record, which torch then does not unpickle.

        A copy, so that torch reads what was checked.
        """
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as target:
            for name in self.file.namelist():
                is_left_out = name == self.root + EXAMPLE_INPUTS
                target.writestr(name, b"" if is_left_out else self.file.read(name))
        copy.seek(0)
        return copy


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """The archive of a program that loads without unpickling and has only known ops.

    Raises:
        ProgramError: it is none, it holds pickles, or it calls an op that is not there; or its
            content turns out malformed in the block.
        OSError: the file cannot be read.
    """
    with open_regular(path, ProgramError) as file:
        if not zipfile.is_zipfile(file):
            raise ProgramError("expected a .pt2 archive, got a file that is no zip file")
        try:
            with zipfile.ZipFile(file) as records:
                yield _checked(path, records, os.fstat(file.fileno()).st_size)
        except (ProgramError, OSError):
            raise
        except Exception as error:
            reason = f"expected a .pt2 archive, got a malformed one: {first_line(error)}"
            raise ProgramError(reason) from error


def _checked(path: Path, file: zipfile.ZipFile, size: int) -> Archive:
    found = file.namelist()
    # torch neither compresses nor encrypts, so no record is larger than the file.
    stored = all(
        info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & ENCRYPTED
        for info in file.infolist()
    )
    if not stored or sum(info.file_size for info in file.infolist()) > size:
        raise ProgramError("expected records that are stored, got compressed or encrypted ones")
    # torch ignores the case of record names.
    if len({name.lower() for name in found}) < len(found):
        raise ProgramError("expected records of different names in the archive, got one twice")
    root = found[0].split("/")[0] + "/" if found else ""
    archive = Archive(path, file, root, frozenset(name.removeprefix(root) for name in found))
    _refuse_pickles(archive)
    if GRAPH not in archive.names or any(map(COMPILED.match, archive.names)):
        raise ProgramError(f"expected {GRAPH} of torch.export, and no code of AOTInductor")
    check_ops(_targets(json.loads(archive.read(GRAPH))))
    return archive


def check_ops(targets: Iterable[str]) -> None:
    """Checks the functions that a graph calls.

    Raises:
        ProgramError: one is an op that is not there, or not for programs.
    """
    import farpoint_ops.compat.pointops  # noqa: F401  registers knn_ragged, of Point Transformer

    for target in targets:
        if _ARITHMETIC.fullmatch(target):
            continue
        match = _OP.fullmatch(target)
        namespace, name = match.group(1, 2) if match else ("", target)
        op = f"{namespace}::{name}" if match else target
        if namespace not in _NAMESPACES or (namespace == "farpoint" and name.startswith("_")):
            known = ", ".join(_NAMESPACES)
            raise ProgramError(f"expected public ops of {known} in the graph, got {op}")
        if not hasattr(getattr(torch.ops, namespace), name):
            raise ProgramError(f"the graph calls {op}, which is not in this installation")


def _targets(graph: Any) -> Iterator[str]:
    """The targets of all nodes, including nested graphs."""
    if isinstance(graph, Mapping):
        if isinstance(graph.get("target"), str) and "inputs" in graph and "outputs" in graph:
            yield graph["target"]
        for value in graph.values():
            yield from _targets(value)
    elif isinstance(graph, list):
        for value in graph:
            yield from _targets(value)


def _refuse_pickles(archive: Archive) -> None:
    names = {name for name in archive.names if _PICKLES.fullmatch(name)}
    for name in archive.names:
        if re.fullmatch(r"data/(weights|constants)/.*_config\.json", name):
            entries = json.loads(archive.read(name)).get("config", {})
            names |= {key for key, entry in entries.items() if entry.get("use_pickle")}
    if names:
        raise ProgramError(
            f"expected a .pt2 archive of plain tensors, got the pickle {min(names)}, which would "
            "run whatever it holds"
        )
