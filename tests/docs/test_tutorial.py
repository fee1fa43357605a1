"""docs/tutorial.md, run as it stands against a real server."""

from pathlib import Path

import pytest
from tests.support.pages import ROOT, code_blocks
from tests.support.server_process import RunningServer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the page writes to, with the test data where the page expects it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_blocks_run_in_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = RunningServer()
    names: dict[str, object] = {}
    try:
        for block in code_blocks("tutorial.md", "python"):
            run = block.replace("127.0.0.1:50051", server.address)
            exec(compile(run, "tutorial.md", "exec"), names)
    finally:
        assert server.stop() == 0
    assert (folder / "street_1024.ply").stat().st_size > 1024 * 12
    printed = capsys.readouterr().out
    assert "points" in printed
    assert printed.count("(") >= 4
