"""docs/coming_from.md: what it says to write instead runs, and gives what it says."""

import re
from importlib import import_module

import pytest
import torch
from tests.support.pages import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer

from farpoint_ops import farthest_point_sample, knn

PAGE = "coming_from.md"
TEXT = (ROOT / "docs" / PAGE).read_text()
SHARED, *BLOCKS = code_blocks(PAGE, "python")
SECTIONS = ("pointnet2_ops", "pointops", "torch_cluster", "pytorch3d", "Open3D", "Triton")
PAIRS = list(zip(SECTIONS, BLOCKS, strict=True))


@pytest.mark.parametrize(("section", "block"), PAIRS, ids=SECTIONS)
def test_the_block_of_a_section_runs(server: RunningServer, section: str, block: str) -> None:
    assert f"\n## {section}\n" in TEXT
    if section == "Triton":
        pytest.importorskip("tritonclient.grpc", reason="the optional extra tritonclient[grpc]")
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for code in (SHARED, block):
        run = code.replace("127.0.0.1:50051", server.address)
        exec(compile(run, PAGE, "exec"), names)


MODULES = re.findall(r"^\|[^|]+\| `([\w.]+)` \| ([^|]+) \| [^|]+ \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("module", "functions"), MODULES, ids=[m for m, _ in MODULES])
def test_a_module_has_the_functions_of_its_row(module: str, functions: str) -> None:
    drop_in = import_module(f"farpoint_ops.compat.{module}")
    for name in re.findall(r"`([a-zA-Z]\w+)`", functions):
        assert hasattr(drop_in, name) or hasattr(drop_in, f"{name}_wrapper"), name


def test_every_module_has_a_row() -> None:
    folder = ROOT / "ops/farpoint_ops/compat"
    public = {p.stem for p in folder.iterdir() if not p.name.startswith("_")}
    assert {module for module, _ in MODULES} == public | {"pointops.batched"}


def test_what_the_answers_have_in_common() -> None:
    """The rows of the first table, in the ops."""
    square = torch.tensor([[[0.0, 0], [2, 0], [0, 2], [2, 2], [2, 2]]])
    indices = farthest_point_sample(square, 5)
    assert indices.tolist() == [[0, 3, 1, 2, 4]], "from row 0, ties to the lowest, none twice"
    assert indices.dtype == torch.int32
    apart = torch.nn.functional.pad(square, (0, 1))
    assert knn(apart, apart[:, :1], 2)[1].tolist() == [[[0, 4]]], "squared"
    _, radii = farthest_point_sample(square.double(), 1, return_distances=True)
    assert radii.dtype == torch.float64
    assert radii.item() == 8**0.5, "not squared"
    with pytest.raises(ValueError, match="num_samples: expected 1 to N = 5, got 6"):
        farthest_point_sample(square, 6)
