"""Refusals of programs, each in one sentence; nothing is unpickled."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.support.programs import RAGGED, Segmenter, segmenter_manifest
from torch import Tensor, nn

from farpoint_models.programs import (
    Batching,
    Manifest,
    ProgramError,
    Role,
    TensorSpec,
    load_program,
    parse_manifest,
)
from farpoint_models.programs.__main__ import main
from farpoint_models.programs.export import export_program

POINTS = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
SCORES = TensorSpec("scores", Role.PER_POINT, "float32", ("B", "N", 4))
SIMPLE = Manifest(Batching.EQUAL, (POINTS,), (SCORES,))


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "segmenter.pt2"
    export_program(Segmenter(), segmenter_manifest(), path)
    return path


@pytest.fixture
def altered(segmenter: Path, tmp_path: Path) -> Callable[..., Path]:
    """The archive with some records changed, left out (None) or added."""

    def alter(**records: Callable[[bytes], bytes | None]) -> Path:
        target = tmp_path / "altered.pt2"
        names = {name.replace("__", "/"): change for name, change in records.items()}
        with zipfile.ZipFile(segmenter) as source, zipfile.ZipFile(target, "w") as file:
            for name in source.namelist():
                change = names.pop(name.removeprefix("segmenter/").rpartition(".")[0], None)
                content = source.read(name) if change is None else change(source.read(name))
                if content is not None:
                    file.writestr(name, content)
            for name, change in names.items():
                file.writestr(f"segmenter/{name}", change(b"") or b"")
        return target

    return alter


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inputs": ()}, "inputs: expected one or more"),
        ({"inputs": (POINTS, replace(POINTS, name="also"))}, "one of the role points"),
        ({"inputs": (replace(POINTS, shape=("B", "N", 2)),)}, "3 coordinates"),
        ({"inputs": (replace(POINTS, dtype="complex64"),)}, "a dtype among .* got complex64"),
        ({"inputs": (replace(POINTS, role=Role.PER_SAMPLE),)}, "a role among .* got per_sample"),
        ({"outputs": (replace(SCORES, shape=("B", 4)),)}, r"dimensions \('B', 'N'\)"),
        ({"outputs": (replace(SCORES, role=Role.PER_SAMPLE, shape=("B", 7)),)}, "for the samples"),
        ({"batching": Batching.PADDED}, "one input of the role lengths, got 0"),
        ({"batching": Batching.RAGGED}, r"dimensions \('P',\)"),
        ({"limits": {"B": (2, None)}}, "expected 1 cloud or more, got 2"),
        ({"inputs": (replace(POINTS, shape=("N", 3)),)}, r"dimensions \('N',\)|a dimension B"),
        *(
            ({"outputs": (replace(SCORES, shape=("B", "N", size)),)}, "sizes of 0 or more")
            for size in (None, 1.5, True, -1, [4])
        ),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(changes, reason):
    with pytest.raises(ProgramError, match=f"^manifest: .*({reason})"):
        replace(SIMPLE, **changes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "expected JSON"),
        ("[]", "expected the format 'farpoint.program/1', got None"),
        ('{"format": "farpoint.program/1"}', "expected the key 'batching', got none"),
        (
            '{"format": "farpoint.program/1", "batching": "often"}',
            "'often' is not a valid Batching",
        ),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(text, reason):
    with pytest.raises(ProgramError, match=f"^manifest: .*{reason}"):
        parse_manifest(text)


@pytest.mark.parametrize("manifest", [SIMPLE, RAGGED, segmenter_manifest()])
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert parse_manifest(manifest.to_json()) == manifest


def with_tensor(manifest: Manifest, kind: str, index: int, **changes: object) -> Manifest:
    specs = list(getattr(manifest, kind))
    specs[index] = replace(specs[index], **changes)
    return replace(manifest, **{kind: tuple(specs)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: replace(m, inputs=m.inputs[:2]), "inputs: the graph has 3 tensors, got 2"),
        (
            lambda m: with_tensor(m, "inputs", 1, dtype="float64"),
            "color: the graph has float32, got float64",
        ),
        (
            lambda m: with_tensor(m, "outputs", 0, shape=("B", 6, "N")),
            "scores: the graph takes 5 for 6",
        ),
        (lambda m: replace(m, limits={"N": (8, 1 << 40)}), None),
    ],
)
def test_a_manifest_that_does_not_fit_its_graph_is_refused(segmenter, tmp_path, change, reason):
    path = tmp_path / "other.pt2"
    path.write_bytes(segmenter.read_bytes())
    manifest = change(load_program(segmenter).manifest)
    path.with_name("other.pt2.json").write_text(manifest.to_json())
    if reason is None:
        assert load_program(path).manifest == manifest
        return
    with pytest.raises(ProgramError, match=f"^manifest: .*{reason}"):
        load_program(path)


def test_an_archive_without_a_manifest_is_refused(altered):
    with pytest.raises(ProgramError, match=r"a manifest, altered\.pt2\.json or farpoint\.json"):
        load_program(altered(extra__farpoint=lambda _: None))


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (b"torch.ops.farpoint.no_such_op", "farpoint::no_such_op, which is not in this"),
        (b"torch.ops.farpoint._cpu_simd", "public ops of .* got farpoint::_cpu_simd"),
        (b"torch.ops.torchvision.nms", "public ops of .* got torchvision::nms"),
        (b"os.system", "public ops of .* got os::system"),
    ],
)
def test_an_op_that_is_not_there_is_refused_by_name(altered, op, reason):
    name = b"torch.ops.farpoint.furthest_point_sample"
    path = altered(models__model=lambda graph: graph.replace(name, op))
    with pytest.raises(ProgramError, match=reason):
        load_program(path)


class Intruder:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def pickled(path: Path) -> bytes:
    file = io.BytesIO()
    torch.save((Intruder(path),), file)
    return file.getvalue()


def test_example_inputs_are_never_unpickled(altered, tmp_path):
    path = altered(data__sample_inputs__model=lambda _: pickled(tmp_path / "intruder"))
    assert load_program(path).parameters == 55
    assert not (tmp_path / "intruder").exists()
    torch.load(io.BytesIO(pickled(tmp_path / "intruder")), weights_only=False)
    assert (tmp_path / "intruder").exists()


def with_pickle(config: bytes) -> bytes:
    entries = json.loads(config)
    next(iter(entries["config"].values()))["use_pickle"] = True
    return json.dumps(entries).encode()


@pytest.mark.parametrize(
    "records",
    [
        {"data__weights__model_weights_config": with_pickle},
        {"data/weights/model.pt": lambda _: b"x"},
        {"data/constants/opaque_obj_0": lambda _: b"x"},
        {"data/CONSTANTS/Custom_obj_0": lambda _: b"x"},
        {"data.pkl": lambda _: b"x"},
    ],
)
def test_an_archive_with_a_pickle_is_refused(altered, records):
    with pytest.raises(ProgramError, match=r"got the pickle .*which would run whatever it holds"):
        load_program(altered(**records))


def compressed(path: Path, target: Path) -> None:
    with (
        zipfile.ZipFile(path) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file,
    ):
        for name in source.namelist():
            file.writestr(name, source.read(name))


def broken(path: Path, target: Path) -> None:
    """With another byte in its graph."""
    with zipfile.ZipFile(path) as source:
        graph = source.read("segmenter/models/model.json")
    target.write_bytes(path.read_bytes().replace(graph[:200], b"x" + graph[1:200]))


def encrypted(path: Path, target: Path) -> None:
    content = bytearray(path.read_bytes())
    entry = content.find(b"PK\x01\x02")  # the first of the directory
    content[entry + 8] |= 1
    target.write_bytes(content)


def oversized(path: Path, target: Path) -> None:
    """Its directory claims a record of 4 GB."""
    content = bytearray(path.read_bytes())
    entry = content.find(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = b"\xfe\xff\xff\xff"
    target.write_bytes(content)


def with_a_pipe_as_manifest(path: Path, target: Path) -> None:
    target.write_bytes(path.read_bytes())
    os.mkfifo(target.with_name("odd.pt2.json"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (compressed, "records that are stored, got"),
        (encrypted, "records that are stored, got"),
        (oversized, "records that are stored"),
        (broken, "malformed one: Bad CRC-32"),
        (lambda _, target: os.mkfifo(target), "a regular file, got one of another kind"),
        (lambda _, target: target.symlink_to("/dev/zero"), "a regular file"),
        (with_a_pipe_as_manifest, "a regular file"),
        (lambda _, target: target.write_bytes(b""), "that is no zip file"),
        (lambda _, target: target.write_bytes(b"not a zip file"), "that is no zip file"),
    ],
)
def test_an_archive_that_would_hang_or_grow_is_refused(segmenter, tmp_path, change, reason):
    change(segmenter, tmp_path / "odd.pt2")
    with pytest.raises(ProgramError, match=reason):
        load_program(tmp_path / "odd.pt2")


@pytest.mark.parametrize("content", [b"no JSON", b"\xff\xfe", b"[" * 100_000, b"[]", b"{}"])
@pytest.mark.parametrize(
    "record", ["models__model", "data__weights__model_weights_config", "extra__farpoint"]
)
def test_a_record_that_is_not_what_it_should_be_is_refused_in_a_sentence(altered, record, content):
    with pytest.raises(ProgramError):
        load_program(altered(**{record: lambda _: content}))


@pytest.mark.parametrize("folder", ["data/aotinductor", "Data/AOTInductor"])
def test_an_archive_with_compiled_code_is_refused(altered, folder):
    """torch would load it, and ignores the case of names."""
    with pytest.raises(ProgramError, match="no code of AOTInductor"):
        load_program(altered(**{f"{folder}/model/a.so": lambda _: b""}))


@pytest.mark.parametrize(
    "limit",
    ["[NaN, 5]", "[1, NaN]", "[1, 1e999]", "[10000000000, null]", f"[{2**80}, null]", "[true]"],
)
def test_limits_that_no_dimension_has_are_refused(limit):
    text = SIMPLE.to_json().replace('"limits": {}', f'"limits": {{"N": {limit}}}')
    assert limit in text
    with pytest.raises(ProgramError, match=r"^manifest: "):
        parse_manifest(text)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "a\nb", "x" * 257])
def test_names_are_printable(name):
    with pytest.raises(ProgramError, match="printable characters"):
        replace(SIMPLE, inputs=(replace(POINTS, name=name),))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_one_name_are_refused(altered):
    """One of them would be checked, and the other one loaded."""
    with pytest.raises(ProgramError, match="got one twice"):
        load_program(altered(**{"Models/Model.json": lambda _: b"{}"}))


class Specialized(nn.Module):
    def forward(self, xyz: Tensor) -> Tensor:
        return xyz.reshape(5, -1, 3).repeat(1, 1, 2)[..., :4]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Specialized(), "dimension 0 of xyz varies, and its code takes 5 alone"),
        (nn.Linear(3, 3), "scores: the graph takes 3 for 4"),
    ],
)
def test_a_module_that_cannot_be_served_as_asked_is_refused(tmp_path, module, reason):
    with pytest.raises(ProgramError, match=reason):
        export_program(module, SIMPLE, tmp_path / "a.pt2")


RIGHT = ["--input", "points:xyz=B,N,3", "--output", "per_point:scores=B,N,3"]


MODULES = """
from torch import nn

def net():
    return nn.Linear(3, 3)

class Branching(nn.Module):
    def forward(self, xyz):
        return xyz if xyz.sum() > 0 else -xyz

number = int
"""


def write_module(folder: Path) -> str:
    (folder / "net.py").write_text(MODULES)
    return f"{folder / 'net.py'}:net"


@pytest.mark.parametrize(
    ("flags", "limits", "shown"),
    [
        (["--limit", "N=4,99"], {"N": (4, 99), "B": (1, None)}, "N 4 to 99, B 1 to any"),
        ([], {"N": (1, None), "B": (1, None)}, "B 1 to any, N 1 to any"),
    ],
)
def test_the_command_writes_a_program_that_loads(tmp_path, capsys, flags, limits, shown):
    path = tmp_path / "net.pt2"
    assert main([write_module(tmp_path), str(path), *RIGHT, *flags]) == 0
    assert load_program(path).manifest.limits == limits
    printed = capsys.readouterr().out
    assert f"12 parameters; {shown}" in printed
    assert f"farpoint-server --model net={path}" in printed


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["net.py:no", "a.pt2", *RIGHT], "net.py: no such file"),
        (["no_such_module:a", "a.pt2", *RIGHT], "No module named 'no_such_module'"),
        (["{}", "a.pt2", "--input", "xyz=B,N,3", *RIGHT[2:]], "expected ROLE:NAME=SHAPE"),
        (["{}", "a.pt2", *RIGHT, "--limit", "N=few"], "--limit: expected NAME=MIN"),
        (["{folder}/net.py:Branching", "a.pt2", *RIGHT], "the module cannot be exported: "),
        (["{}", "a.pt", *RIGHT], "path: expected NAME.pt2, got a.pt"),
    ],
)
def test_the_command_names_a_wrong_argument_in_one_line(tmp_path, capsys, arguments, reason):
    module = write_module(tmp_path)
    assert main([argument.format(module, folder=tmp_path) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("farpoint export: ")
    assert reason in line


def test_the_help_of_the_command_has_the_whole_form_of_a_tensor(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "ROLE:NAME=SHAPE[:DTYPE][@COUNTS]" in shown
    assert "--nonfinite NAME" in shown
