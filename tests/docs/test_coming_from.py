"""docs/coming_from.md: what it says to write instead runs, and gives what it says."""

import pytest
import torch
from tests.support.pages import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer

PAGE = "coming_from.md"
SHARED, *BLOCKS = code_blocks(PAGE, "python")
SECTIONS = ("pointnet2_ops", "pointops", "torch_cluster", "pytorch3d", "Open3D", "Triton")
PAIRS = list(zip(SECTIONS, BLOCKS, strict=True))


@pytest.mark.parametrize(("section", "block"), PAIRS, ids=SECTIONS)
def test_the_block_of_a_section_runs(server: RunningServer, section: str, block: str) -> None:
    assert f"\n## {section}\n" in (ROOT / "docs" / PAGE).read_text()
    if section == "Triton":
        pytest.importorskip("tritonclient.grpc", reason="the optional extra tritonclient[grpc]")
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for code in (SHARED, block):
        run = code.replace("127.0.0.1:50051", server.address)
        exec(compile(run, PAGE, "exec"), names)
