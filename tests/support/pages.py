"""Code blocks of the Markdown pages in docs/, for tests that run them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def code_blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of docs/`page` in `language`, each with the lines above it left empty.

    So a traceback of ``compile(block, page, "exec")`` names the line of the page.
    """
    text = (ROOT / "docs" / page).read_text()
    found = list(re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    assert found, f"docs/{page} has no block of {language}"
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]
