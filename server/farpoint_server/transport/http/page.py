"""Files of the page, from the package: headers that bound what it may do, ETags, gzip."""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farpoint_server.transport.http.exchange import Answer, send_all

FOLDER = Path(__file__).parents[2] / "web"
INDEX = "/index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".bin": "application/octet-stream",
    ".ply": "application/octet-stream",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
# Names of these have a hash of what is in them.
HASHED = "/assets/"
FOREVER, CHECKED = "public, max-age=31536000, immutable", "no-cache"
NOT_FOUND = Answer(404, (("content-type", "text/plain; charset=utf-8"), *SECURITY), b"Not Found")


@dataclass(frozen=True)
class PageFile:
    """One file, which stays in memory once it was asked for.

    Args:
        path: Where it is.
        cache: What Cache-Control says of it.
    """

    path: Path
    cache: str

    async def load(self) -> None:
        """Reads it, and packs it, which takes a tenth of a second at a megabyte, on a thread."""
        if "tag" not in self.__dict__:
            await asyncio.to_thread(lambda: (self.content, self.packed, self.tag))

    @cached_property
    def content(self) -> bytes:
        """As it is."""
        return self.path.read_bytes()

    @cached_property
    def packed(self) -> bytes:
        """With gzip; as it is where that is no gain."""
        packed = gzip.compress(self.content, mtime=0)
        return packed if len(packed) < 0.9 * len(self.content) else self.content

    @cached_property
    def tag(self) -> str:
        """Of what is in it."""
        return hashlib.sha256(self.content).hexdigest()[:32]


class PageApp:
    """ASGI application of the files of a folder; there is nothing else that a path could reach.

    Args:
        folder: Where they are. Without it every path is 404.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(folder.rglob("*")) if folder.is_dir() else []
        paths = {f"/{file.relative_to(folder).as_posix()}": file for file in files}
        self._files: Mapping[str, PageFile] = {
            path: PageFile(file, FOREVER if path.startswith(HASHED) else CHECKED)
            for path, file in paths.items()
            if file.suffix in TYPES and file.is_file()
        }

    @property
    def is_there(self) -> bool:
        """Whether there is a page at all."""
        return INDEX in self._files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        path = INDEX if scope["path"] == "/" else scope["path"]
        file = self._files.get(path)
        if file is None:
            await send_all(send, NOT_FOUND)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_all(send, Answer(405, (("allow", "GET, HEAD"),), b""))
        else:
            await file.load()
            await send_all(send, _answer(file, Headers(scope=scope)))


def _answer(file: PageFile, headers: Headers) -> Answer:
    accepted = headers.get("accept-encoding", "").lower()
    body = file.packed if "gzip" in accepted else file.content
    is_packed = body is not file.content
    tag = f'"{file.tag}{"-gzip" if is_packed else ""}"'
    sent = [
        ("content-type", TYPES[file.path.suffix]),
        ("cache-control", file.cache),
        ("etag", tag),
        ("vary", "accept-encoding"),
        *SECURITY,
    ]
    known = [
        known.strip().removeprefix("W/") for known in headers.get("if-none-match", "").split(",")
    ]
    if tag in known:
        return Answer(304, sent, b"")
    if is_packed:
        sent.append(("content-encoding", "gzip"))
    return Answer(200, sent, body)
