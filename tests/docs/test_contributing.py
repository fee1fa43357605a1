"""Rules of CONTRIBUTING.md that a program can check, for the packages."""

import ast
from collections import Counter
from pathlib import Path

from tests.support.pages import ROOT

PACKAGES = ("ops", "server", "client/src", "training/farpoint_training")
GENERATED = {"farpoint/v1", "farpoint/inference"}
MODULES = [
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not any(part in str(path.parent) for part in (*GENERATED, "build"))
]
MOST_LINES, MOST_MODULES = 35, 17


def lines_of(function: ast.AST) -> int:
    """Lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def test_functions_are_short():
    long = {
        f"{path.relative_to(ROOT)}: {node.name}": lines_of(node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and lines_of(node) > MOST_LINES
    }
    assert long == {}


def test_folders_have_few_modules():
    folders: Counter[Path] = Counter(p.parent for p in MODULES if p.name != "__init__.py")
    assert {str(f): n for f, n in folders.items() if n > MOST_MODULES} == {}
