"""MkDocs hooks: add pages made at build time and pages outside docs/, and rewrite links."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.docs.reference import (  # noqa: E402
    PAGES,
    PLACES,
    render_api,
    render_contract,
    render_metrics,
    render_settings,
    rewrite,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages and the pages at the top of the repository."""
    generated = {
        "reference/contract.md": render_contract(ROOT / "proto"),
        "reference/settings.md": render_settings(),
        "reference/metrics.md": render_metrics(),
        "decisions/index.md": _decisions(),
        **{f"reference/{package}.md": render_api(package) for package in PAGES},
    }
    for place, content in generated.items():
        files.append(File.generated(config, place, content=content))
    for path in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        files.append(File.generated(config, PLACES[path], abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrites the links of a page from paths of the repository to those of the site."""
    path = page.file.abs_src_path
    if path is None:  # a generated page
        return markdown
    return rewrite(markdown, str(Path(path).relative_to(ROOT)))


def _decisions() -> str:
    pages = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
    titles = [page.read_text().partition("\n")[0].removeprefix("# ") for page in pages]
    rows = [f"* [{t}]({p.name})" for t, p in zip(titles, pages, strict=True)]
    return "# Decisions\n\nWhat was decided, why, and what would change it.\n\n" + "\n".join(rows)
