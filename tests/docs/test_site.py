"""Pages of the site that are made from the code hold all that the code has."""

import pkgutil
import re
from importlib import import_module

import pytest
from tests.support.pages import ROOT
from tests.support.servers.server_process import RunningServer
from tools.docs import links
from tools.docs.contract import read_contract, render_contract
from tools.docs.reference import PAGES, render_metrics, render_settings

from farpoint.v1 import admin_pb2, packed_cloud_pb2, sampling_pb2, shared_memory_pb2, tensor_pb2
from farpoint_server.config.settings import Settings

CONTRACT = (admin_pb2, packed_cloud_pb2, sampling_pb2, shared_memory_pb2, tensor_pb2)
FILES = [module.DESCRIPTOR for module in CONTRACT]


@pytest.fixture(scope="module")
def contract() -> str:
    return render_contract(read_contract(ROOT / "proto"))


def test_the_contract_has_every_rpc_field_and_value(contract: str) -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", contract, re.DOTALL | re.MULTILINE))
    for file in FILES:
        for name, service in file.services_by_name.items():
            for method in service.methods:
                assert f"| `{method.name}` |" in sections[name]
        for name, message in file.message_types_by_name.items():
            for field in message.fields:
                assert f"| {field.number} | `{field.name}` |" in sections[name]
        for name, enum in file.enum_types_by_name.items():
            for value in enum.values:
                assert f"| {value.number} | `{value.name}` |" in sections[name]


def test_the_contract_has_the_comments_of_the_protos(contract: str) -> None:
    assert "Exact farthest point sampling: each point is the one farthest" in contract
    assert "| 1 | `points` | [Tensor](#tensor) | Shape (P, 3): the clouds one after" in contract
    assert "| stream [SampleLargeRequest](#samplelargerequest) |" in contract


def test_its_links_lead_to_sections(contract: str) -> None:
    titles = {title.lower() for title in re.findall(r"^## (\w+)$", contract, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", contract)) <= titles


def test_every_setting_is_listed_once_with_its_help() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", render_settings(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(Settings.model_fields)
    for name, row in rows:
        assert row.endswith(str(Settings.model_fields[name].description).replace("|", r"\|")), name


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
    assert shown | {"reference"} == public


def test_every_page_of_docs_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf"^ +- .*: {page.name}$", menu, re.MULTILINE), page.name


@pytest.mark.parametrize(
    ("source", "written", "wanted"),
    [
        ("README.md", "[a](docs/files.md#formats)", "[a](files.md#formats)"),
        ("README.md", "[a](LICENSE)", f"[a]({links.HOSTED}LICENSE)"),
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
    assert links.rewrite(written, source) == wanted
