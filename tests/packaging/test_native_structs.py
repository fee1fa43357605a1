"""Structures that Python passes to C++ have the fields of its headers."""

import ctypes
import re

import pytest
from tests.support.pages import ROOT

from farpoint_server.codec.raw_sample import SampleRequest
from farpoint_server.compute.transfer.library import SampleBatch

TYPES = {
    "int64_t": ctypes.c_int64,
    "int32_t": ctypes.c_int32,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "pointer": ctypes.c_void_p,
}


def fields_of(header: str, name: str) -> list[tuple[str, type]]:
    """The fields of a struct and their types, as the header has them."""
    code = re.sub(r"//.*", "", (ROOT / "csrc" / header).read_text())
    (body,) = re.findall(rf"struct {name} {{(.*?)}};", code, re.DOTALL)
    found = []
    for declaration in filter(str.strip, body.split(";")):
        kind, names = re.fullmatch(r"\s*(?:const )?(\w+)\s*(.*)", declaration, re.DOTALL).groups()
        for each in re.split(r",\s*", names):
            pointer, field, count = re.fullmatch(r"(\*?)\s*(\w+)(?:\[(\d+)\])?", each).groups()
            made = TYPES["pointer" if pointer else kind]
            found.append((field, made * int(count) if count else made))
    return found


@pytest.mark.parametrize(
    ("structure", "header", "name"),
    [
        (SampleRequest, "cpu/kernels/messages/sample_request.h", "farpoint_sample_request"),
        (SampleBatch, "cuda/serving/sample_batch.h", "farpoint_sample_batch"),
    ],
    ids=["SampleRequest", "SampleBatch"],
)
def test_a_structure_has_the_fields_of_its_header(structure, header, name):
    assert list(structure._fields_) == fields_of(header, name)
