"""docs/tutorial.md and docs/methods.md, run as they stand against a real server."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the page writes to, with the test data where the page expects it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_blocks_run_in_their_order(
    server: RunningServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for block in code_blocks("tutorial.md", "python"):
        run = block.replace("127.0.0.1:50051", server.address)
        exec(compile(run, "tutorial.md", "exec"), names)
    assert (folder / "street_1024.ply").stat().st_size > 1024 * 12
    printed = capsys.readouterr().out
    assert re.search(r"^\d+\.\d\d m$", printed, re.MULTILINE)
    assert "1000 rows" in printed  # the error of the cloud of NaN
    assert re.search(r"^\(\d+,\) \(\d+, \d+\)$", printed, re.MULTILINE)


def test_the_methods_sample(server: RunningServer) -> None:
    (block,) = code_blocks("methods.md", "python")
    names: dict[str, Any] = {}
    exec(compile(block.replace("127.0.0.1:50051", server.address), "methods.md", "exec"), names)
    assert len(names["some"]) == 1024
    voxels = np.floor(names["points"] / 0.5)
    assert len(names["grid"]) == len(np.unique(voxels, axis=0))
    assert names["apart"].covering_radius <= 0.5
