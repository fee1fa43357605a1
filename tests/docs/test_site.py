"""Pages of the site that are made from the code hold all that the code has."""

import pkgutil
import re
from importlib import import_module

import pytest
from tests.support.pages import ROOT
from tests.support.servers.server_process import RunningServer
from tools.docs.reference import (
    HOSTED,
    PAGES,
    render_contract,
    render_metrics,
    render_settings,
    rewrite,
)

from farpoint_server.config.settings import Settings


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
    modules = {name for _, names in PAGES.values() for name in names}
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
