"""What the README says is there, and what it tells people to type."""

import re
from pathlib import Path

import pytest
from tests.support.servers.server_process import RunningServer

import farpoint_ops
from farpoint_server.services import registration as services

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    server = RunningServer()
    try:
        exec(example.replace("127.0.0.1:50051", server.address), {})
    finally:
        assert server.stop() == 0
    assert "(1024, 3)" in capsys.readouterr().out


def test_the_table_of_ops_is_complete() -> None:
    # An op whose answer has another form with some argument has a row for each.
    assert set(re.findall(r"^\| `(\w+)\(", README, re.MULTILINE)) == set(farpoint_ops.__all__)


def test_the_table_of_rpcs_is_complete() -> None:
    listed = re.findall(r"^\| `([\w.]+)(?:/(\w+))?`", README, re.MULTILINE)
    served = (*services.PUBLIC, *services.ADMIN, services.HEALTH)
    names = {service.full_name for service in served} | {"grpc.reflection.v1.ServerReflection"}
    assert {name for name, _ in listed if "." in name} == names
    ours = [service for service in served if service.full_name.startswith("farpoint.")]
    assert [row for row in listed if row[1]] == [
        (service.full_name, method.name) for service in ours for method in service.methods
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_make_targets_exist(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:`|^)make ([\w-]+)", text, re.MULTILINE)
    assert set(named) <= set(targets)


def test_every_test_that_the_page_on_reliability_names_is_there() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    promises = [line for line in page.splitlines() if re.match(r"\| [A-Z]", line)]
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page)
    assert len(promises) == len(named) > 40
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), test
