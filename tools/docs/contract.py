"""Markdown reference of proto/farpoint, from the descriptors and comments that protoc gives."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

PACKAGE = ".farpoint.v1."
Kind = FieldDescriptorProto.Type
Comments = dict[tuple[int, ...], str]


def read_contract(proto: Path) -> FileDescriptorSet:
    """The files below `proto`/farpoint with their comments, in the order of their names.

    Raises:
        RuntimeError: protoc fails; it has said why on standard error.
    """
    names = sorted(str(path.relative_to(proto)) for path in proto.glob("farpoint/**/*.proto"))
    include = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        options = [f"-I{proto}", f"-I{include}", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *options, "--include_source_info", *names]):
            raise RuntimeError("protoc failed")
        return FileDescriptorSet.FromString(out.read_bytes())


def render_contract(files: FileDescriptorSet) -> str:
    """One page: services first, then every message and enum."""
    pages = [_File(file) for file in files.file]
    lines = ["# farpoint.v1", "", "Made from `proto/farpoint/v1`."]
    lines += [line for page in pages for line in page.services()]
    lines += [line for page in pages for line in page.types()]
    return "\n".join(lines) + "\n"


@dataclass
class _File:
    file: FileDescriptorProto

    def __post_init__(self) -> None:
        locations = self.file.source_code_info.location
        self._comments: Comments = {
            tuple(place.path): place.leading_comments.strip() for place in locations
        }

    def services(self) -> Iterator[str]:
        for number, service in enumerate(self.file.service):
            yield from self._heading(service.name, (6, number))
            yield from self._methods(service, number)

    def types(self) -> Iterator[str]:
        for number, message in enumerate(self.file.message_type):
            yield from self._heading(message.name, (4, number))
            yield from self._fields(message, number)
        for number, enum in enumerate(self.file.enum_type):
            yield from self._heading(enum.name, (5, number))
            yield from self._values(enum, number)

    def _heading(self, name: str, path: tuple[int, ...]) -> Iterator[str]:
        yield from ("", f"## {name}", "", self._comment(path), "")

    def _comment(self, path: tuple[int, ...]) -> str:
        return re.sub(r"\s*\n\s*", " ", self._comments.get(path, "")).replace("|", r"\|")

    def _methods(self, service: ServiceDescriptorProto, number: int) -> Iterator[str]:
        yield from ("| RPC | request | response | |", "|---|---|---|---|")
        for index, method in enumerate(service.method):
            request = "stream " * method.client_streaming + _link(method.input_type)
            response = "stream " * method.server_streaming + _link(method.output_type)
            comment = self._comment((6, number, 2, index))
            yield f"| `{method.name}` | {request} | {response} | {comment} |"

    def _fields(self, message: DescriptorProto, number: int) -> Iterator[str]:
        if not message.field:
            yield "No fields."
            return
        yield from ("| # | field | type | |", "|---|---|---|---|")
        for index, field in enumerate(message.field):
            comment = self._comment((4, number, 2, index))
            if field.HasField("oneof_index"):
                comment = f"One of `{message.oneof_decl[field.oneof_index].name}`. {comment}"
            yield f"| {field.number} | `{field.name}` | {_type(field)} | {comment} |"

    def _values(self, enum: EnumDescriptorProto, number: int) -> Iterator[str]:
        yield from ("| # | value | |", "|---|---|---|")
        for index, value in enumerate(enum.value):
            comment = self._comment((5, number, 2, index))
            yield f"| {value.number} | `{value.name}` | {comment} |"


def _type(field: FieldDescriptorProto) -> str:
    repeated = "repeated " * (field.label == FieldDescriptorProto.LABEL_REPEATED)
    named = field.type in (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_ENUM)
    return repeated + (
        _link(field.type_name) if named else Kind.Name(field.type).removeprefix("TYPE_").lower()
    )


def _link(name: str) -> str:
    """A link within the page for our own types, the full name for others."""
    if not name.startswith(PACKAGE):
        return f"`{name.lstrip('.')}`"
    short = name.removeprefix(PACKAGE)
    return f"[{short}](#{short.lower()})"
