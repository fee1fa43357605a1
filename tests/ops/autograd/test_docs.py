"""Doctest of docs/autograd.md: its Python runs, and its C++ stands in the sources."""

import doctest
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "autograd.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return found


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inside torch
def test_the_python_runs_as_a_doctest() -> None:
    torch.manual_seed(0)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks("python")), {}, PAGE.name, None, 0)
    assert page.examples
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(page, out=report.append)
    assert not failed, "".join(report)


def test_the_cpp_is_in_the_sources() -> None:
    sources = [path.read_text() for path in (ROOT / "csrc").rglob("*") if path.is_file()]
    for block in blocks("cpp"):
        assert any(block in source for source in sources), block


def test_the_files_it_names_exist() -> None:
    named = re.findall(r"`((?:csrc|server|tests)/[\w./]+)`", PAGE.read_text())
    assert len(named) > 5
    assert all((ROOT / name).exists() for name in named)
