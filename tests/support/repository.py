"""Git repositories of a test's own."""

import subprocess
from pathlib import Path


def make_repository(folder: Path, *, tag: str) -> None:
    """Commits all that lies in `folder`, under a tag."""
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    unsigned = ("-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", tag]):
        subprocess.run(["git", *who, *unsigned, *command], check=True, cwd=folder)
