"""Relative links of the repository, rewritten for the site."""

import posixpath
import re

LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
HOSTED = "https://github.com/farpoint/farpoint/blob/main/"
# Pages that lie outside docs/, and folders that have a page of their own.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions": "decisions/index.md",
    "proto/farpoint/v1": "reference/contract.md",
}


def place_of(path: str) -> str | None:
    """Page of the site for a path of the repository; None if it has none."""
    return PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def rewrite(text: str, source: str) -> str:
    """The Markdown of the file `source` with links as they must be on the site."""
    here = posixpath.dirname(place_of(source) or "")

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if re.match(r"[a-z]+:", link):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        place = place_of(path)
        target = HOSTED + path if place is None else posixpath.relpath(place, here or ".")
        return before + target + after

    return LINK.sub(replace, text)
