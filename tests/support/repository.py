"""The repository: code blocks of its pages, and git repositories of a test's own."""

import re
import subprocess
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


def make_repository(folder: Path, *, tag: str) -> None:
    """Commits all that lies in `folder`, under a tag."""
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    unsigned = ("-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", tag]):
        subprocess.run(["git", *who, *unsigned, *command], check=True, cwd=folder)
