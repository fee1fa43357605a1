"""MkDocs hooks: add pages made at build time and files outside docs/, and rewrite links."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.docs import links  # noqa: E402
from tools.docs.api import PAGES, render_api  # noqa: E402
from tools.docs.contract import read_contract, render_contract  # noqa: E402
from tools.docs.metrics import render_metrics  # noqa: E402
from tools.docs.settings import render_settings  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages and copies."""
    for place, content in {**_reference(), "decisions/index.md": _decisions()}.items():
        files.append(File.generated(config, place, content=content))
    waiting = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    waiting += [str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")]
    seen = set(waiting) | set(links.PLACES)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(_copy(path, config))
        found = [target for target in _leads_to(path) if target not in seen]
        waiting += found
        seen |= set(found)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrites the links of a page: they are of the repository, and the site differs."""
    path = page.file.abs_src_path
    if path is None:  # made here, for the site
        return markdown
    return links.rewrite(markdown, str(Path(path).relative_to(ROOT)), _is_folder)


def _leads_to(path: str) -> list[str]:
    """What a page links to or a folder holds; of a link to nothing MkDocs warns by itself."""
    if path.endswith(".md"):
        found = links.targets((ROOT / path).read_text(), path)
        return [target for target in dict.fromkeys(found) if (ROOT / target).exists()]
    return _contents(path) if _is_folder(path) else []


def _reference() -> dict[str, str]:
    contract = render_contract(read_contract(ROOT / "proto"))
    return {
        "reference/contract.md": contract,
        "reference/settings.md": render_settings(),
        "reference/metrics.md": render_metrics(),
        **{f"reference/{package}.md": render_api(package) for package in PAGES},
    }


def _decisions() -> str:
    pages = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
    titles = [page.read_text().partition("\n")[0].removeprefix("# ") for page in pages]
    rows = [f"* [{t}]({p.name})" for t, p in zip(titles, pages, strict=True)]
    return "# Decisions\n\nWhat was decided, why, and what would change it.\n\n" + "\n".join(rows)


def _copy(path: str, config: MkDocsConfig) -> File:
    place = links.place_of(path, _is_folder)
    if _is_folder(path):
        rows = [f"* [{name}]({Path(name).relative_to(path)})" for name in _contents(path)]
        return File.generated(config, place, content=f"# {path}\n\n" + "\n".join(rows))
    return File.generated(config, place, abs_src_path=str(ROOT / path))


def _is_folder(path: str) -> bool:
    return (ROOT / path).is_dir()


@cache
def _contents(path: str) -> list[str]:
    """The files of a folder that git knows."""
    listed = subprocess.check_output(["git", "ls-files", path], cwd=ROOT, text=True)
    return sorted(listed.split())
