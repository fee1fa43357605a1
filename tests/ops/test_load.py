"""Import of the compiled extension, and its error messages when that fails."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from farpoint_ops import _load


def test_the_ops_need_no_grpc() -> None:
    code = "import farpoint_ops, sys; sys.exit('grpc' in sys.modules or 'farpoint' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("No module named 'farpoint_ops._C'"), "are missing: run `make ext`"),
        (ImportError("undefined symbol: _ZN3c10"), "do not load with torch .*: run `make ext`"),
    ],
)
def test_an_extension_that_does_not_load(
    monkeypatch: pytest.MonkeyPatch, error: ImportError, sentence: str
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ImportError, match=sentence):
        _load.load()


def test_an_extension_built_for_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = SimpleNamespace(torch_version="2.11.0")
    monkeypatch.setattr(importlib, "import_module", lambda _: stale)
    with pytest.raises(ImportError, match=r"for torch 2\.11\.0, not for .*run `make ext`"):
        _load.load()


def test_the_extension_knows_its_torch() -> None:
    assert importlib.import_module("farpoint_ops._C").torch_version == torch.__version__
