"""Where the files of the repository lie on the site, and relative links rewritten for it."""

import posixpath
import re
from collections.abc import Callable

LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
# Pages that lie outside docs/, and folders that have a page of their own.
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions": "decisions/index.md",
    "proto/farpoint/v1": "reference/contract.md",
}


def place_of(path: str, is_folder: Callable[[str], bool]) -> str:
    """The site's address of a path of the repository; what is no page is copied to source/."""
    if path in PLACES:
        return PLACES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}/index.md" if is_folder(path) else f"source/{path}"


def is_relative(link: str) -> bool:
    """Whether a link leads to a file of the repository."""
    return not re.match(r"[a-z]+:|#", link)


def targets(text: str, source: str) -> list[str]:
    """Paths of the repository that the Markdown file `source` links to."""
    folder = posixpath.dirname(source)
    return [
        posixpath.normpath(posixpath.join(folder, link))
        for _, link, _ in LINK.findall(text)
        if is_relative(link)
    ]


def rewrite(text: str, source: str, is_folder: Callable[[str], bool]) -> str:
    """The same Markdown with links as they must be on the site."""
    here = posixpath.dirname(place_of(source, is_folder))

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if not is_relative(link):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        return before + posixpath.relpath(place_of(path, is_folder), here or ".") + after

    return LINK.sub(replace, text)
