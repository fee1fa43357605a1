"""The code of docs/python.md runs, in its order, against a server."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.support.servers.server_process import RunningServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    server = RunningServer()
    monkeypatch.setenv("FARPOINT_SERVER", server.address)
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    try:
        exec(examples.replace("127.0.0.1:50051", server.address), names)
    finally:
        assert server.stop() == 0
    sample = names["sample"]
    assert {"rgb", "normal_x"} <= sample.attributes.keys()
    assert len(sample) == 100
    assert np.isfinite(sample.points).all()
