"""Files of the page, from the package, with security headers, ETags and gzip."""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farpoint_server.transport.http.exchange import HttpResponse, send_all

FOLDER = Path(__file__).parents[2] / "web"
INDEX = "/index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".bin": "application/octet-stream",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
# Their names have a hash of their content.
HASHED = "/assets/"
FOREVER, CHECKED = "public, max-age=31536000, immutable", "no-cache"
NOT_FOUND = HttpResponse(
    404, (("content-type", "text/plain; charset=utf-8"), *SECURITY), b"Not Found"
)


class PageFile(NamedTuple):
    """The content of a file, the same in gzip where that is smaller, and a tag of it."""

    content: bytes
    packed: bytes
    tag: str


class PageApp:
    """ASGI application of the files of a folder; paths reach nothing else.

    Args:
        folder: Where they are. Without it every path is 404.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(folder.rglob("*")) if folder.is_dir() else []
        self._files: Mapping[str, Path] = {
            f"/{file.relative_to(folder).as_posix()}": file
            for file in files
            if file.suffix in TYPES and file.is_file()
        }
        self._load = cache(_load)

    @property
    def is_there(self) -> bool:
        """Whether there is a page at all."""
        return INDEX in self._files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        path = INDEX if scope["path"] == "/" else scope["path"]
        if path not in self._files:
            await send_all(send, NOT_FOUND)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_all(send, HttpResponse(405, (("allow", "GET, HEAD"),), b""))
        else:
            # The first time takes a tenth of a second at a megabyte.
            file = await asyncio.to_thread(self._load, self._files[path])
            await send_all(send, _answer(path, file, Headers(scope=scope)))


def _load(path: Path) -> PageFile:
    content = path.read_bytes()
    packed = gzip.compress(content, mtime=0)
    if len(packed) > 0.9 * len(content):
        packed = content
    return PageFile(content, packed, hashlib.sha256(content).hexdigest()[:32])


def _answer(path: str, file: PageFile, headers: Headers) -> HttpResponse:
    accepted = headers.get("accept-encoding", "").lower()
    body = file.packed if "gzip" in accepted else file.content
    is_packed = body is not file.content
    tag = f'"{file.tag}{"-gzip" if is_packed else ""}"'
    sent = [
        ("content-type", TYPES[Path(path).suffix]),
        ("cache-control", FOREVER if path.startswith(HASHED) else CHECKED),
        ("etag", tag),
        ("vary", "accept-encoding"),
        *SECURITY,
    ]
    known = (one.strip().removeprefix("W/") for one in headers.get("if-none-match", "").split(","))
    if tag in known:
        return HttpResponse(304, sent, b"")
    if is_packed:
        sent.append(("content-encoding", "gzip"))
    return HttpResponse(200, sent, body)
