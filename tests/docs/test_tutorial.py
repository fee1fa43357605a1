"""docs/tutorial.md, run as it stands against a real server."""

import re
from pathlib import Path

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
