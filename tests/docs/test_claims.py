"""Pages, references and the rules of CONTRIBUTING.md agree with the code."""

import ast
import pkgutil
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.repository import ROOT
from tests.support.servers.server_process import RunningServer
from tools.docs import reference
from tools.docs.reference import (
    HOSTED,
    render_contract,
    render_metrics,
    render_settings,
    rewrite,
)

import farpoint_ops
from farpoint_server.app import services
from farpoint_server.codec.open_inference import fps
from farpoint_server.config.settings import Settings
from farpoint_server.services.open_inference import servicer

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_the_table_of_ops_is_complete() -> None:
    # An op whose result has another form with some argument has a row for each.
    ops = {getattr(farpoint_ops, name).__name__ for name in farpoint_ops.__all__}  # no aliases
    assert set(re.findall(r"^\| `(\w+)\(", page("ops.md"), re.MULTILINE)) == ops


def test_the_table_of_rpcs_is_complete() -> None:
    table, _, _ = page("clients.md").partition("## Python")
    listed = re.findall(r"^\| `([\w.]+)(?:/(\w+))?`", table, re.MULTILINE)
    served = (*services.PUBLIC, *services.ADMIN, services.HEALTH)
    names = {service.full_name for service in served} | {"grpc.reflection.v1.ServerReflection"}
    assert {name for name, _ in listed} == names
    ours = [service for service in served if service.full_name.startswith("farpoint.")]
    assert [row for row in listed if row[1]] == [
        (service.full_name, method.name) for service in ours for method in service.methods
    ]


def test_every_call_and_tensor_of_open_inference_is_listed() -> None:
    text = page("models.md")
    for method in servicer.DESCRIPTOR.methods:
        assert f"`{method.name}`" in text
    for tensor in (*fps.INPUTS, *fps.OPTIONAL):
        assert f"`{tensor}` |" in text
    for tensor in fps.OUTPUTS:
        assert f"| output | `{tensor}` |" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_and_make_targets_exist(path: Path) -> None:
    text = path.read_text()
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (path.parent / link).exists(), link
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:`|^)make ([\w-]+)", text, re.MULTILINE)
    assert set(named) <= set(targets)


SCRIPTS = [
    *(ROOT / name for name in ("Makefile", "Dockerfile", ".ci/run")),
    *ROOT.glob("tools/**/*.sh"),
    *ROOT.glob("deploy/image/*.sh"),
    *ROOT.glob(".github/workflows/*.yml"),
]
# Written by scripts.
OUTPUTS = ("benchmarks/results/", "web/node_modules/", "ops/farpoint_ops/lib")
FOLDERS = "benchmarks|client|csrc|deploy|docs|examples|ops|proto|server|tests|tools|training|web"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_paths_that_scripts_name_exist(script: Path) -> None:
    found = re.findall(rf"(?<![\w./$}}\"])(?:{FOLDERS})/[\w./{{}},*-]+\w", script.read_text())
    for path in (path for path in found if not path.startswith(OUTPUTS)):
        before, choices, after = re.fullmatch(r"([^{]*)(?:\{(.*)\})?(.*)", path).groups()
        for choice in (choices or "").split(","):
            assert list(ROOT.glob((before + choice + after).replace("*", "**/*"))), path


def test_every_promise_names_a_test_that_exists() -> None:
    text = page("reliability.md")
    promises = text.partition("## What is not promised")[0].count("\n* ")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert promises == len(named) > 100
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), test


def test_the_table_of_steps_names_files_and_functions_that_exist() -> None:
    table = page("architecture.md").partition("## Where the steps are")[2].partition("## ")[0]
    named = re.findall(r"`([\w/]+\.py)(?:: ([\w., ]+))?`", table)
    assert len(named) > 15
    for file, names in named:
        code = (ROOT / "server/farpoint_server" / file).read_text()
        for name in re.findall(r"\w+", names):
            assert re.search(rf"\b(def|class) {name}\b", code), f"{file}: {name}"


def test_licenses_of_bundled_material_are_listed() -> None:
    listed = (ROOT / "THIRD_PARTY.md").read_text()
    page_licenses = (ROOT / "server/farpoint_server/web/licenses.txt").read_text()
    packages = re.findall(r"^(\S+) \d+\.\d+\.\d+$", page_licenses, re.MULTILINE)
    clouds = re.findall(
        r"^==== (.+) ====$", (ROOT / "tests/data/LICENSES.txt").read_text(), re.MULTILINE
    )
    names = {name for line in clouds for name in line.split(", ")}
    assert len(packages) >= 3
    assert {name for name in (*packages, *names) if name not in listed} == set()


def test_decisions_are_numbered_without_holes() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_contract_has_every_message_with_its_comments() -> None:
    contract = render_contract(ROOT / "proto")
    assert re.findall(r"^service (\w+)", contract, re.MULTILINE) == [
        "AdminService",
        "SamplingService",
    ]
    assert "message SampleRequest {" in contract
    assert "// Exact farthest point sampling: each point is the one farthest" in contract


def test_every_setting_is_listed_once_with_its_help() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", render_settings(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(Settings.model_fields)
    for name, row in rows:
        text = " ".join(str(Settings.model_fields[name].description).split())
        assert row.endswith(text.replace("|", r"\|")), name


def test_every_metric_that_a_server_exports_is_listed(server: RunningServer) -> None:
    listed = set(re.findall(r"^\| `(\w+)`", render_metrics(), re.MULTILINE))
    series = {name.partition("{")[0] for name in server.metrics()}
    exported = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
    assert {name for name in exported if name.startswith("farpoint_")} <= listed
    assert len(listed) > 30


def test_modules_of_the_api_reference_exist_and_all_public_ops_are_in_them() -> None:
    modules = {name for _, names in reference.PAGES.values() for name in names}
    for name in modules:
        assert import_module(name).__doc__
    package = import_module("farpoint_ops")
    public = {m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")}
    shown = {name.split(".")[1] for name in modules if name.startswith("farpoint_ops.")}
    assert shown == public


def test_every_page_of_docs_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf"^ +- .*: {page.name}$", menu, re.MULTILINE), page.name


@pytest.mark.parametrize(
    ("source", "written", "wanted"),
    [
        ("README.md", "[a](docs/files.md#formats)", "[a](files.md#formats)"),
        ("README.md", "[a](LICENSE)", f"[a]({HOSTED}LICENSE)"),
        ("docs/files.md", "[a](decisions/0001-x.md)", "[a](decisions/0001-x.md)"),
        ("docs/files.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/files.md", "[a](../proto/farpoint/v1)", "[a](reference/contract.md)"),
        ("docs/files.md", "[a](#formats) [b](https://c/d.md)", "[a](#formats) [b](https://c/d.md)"),
        ("docs/decisions/0001-x.md", "[a](../../CONTRIBUTING.md)", "[a](../contributing.md)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(
    source: str, written: str, wanted: str
) -> None:
    assert rewrite(written, source) == wanted


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
