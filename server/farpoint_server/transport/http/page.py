"""Files of the page, from the package, in gzip and with security headers."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

FOLDER = Path(__file__).parents[2] / "web"
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# Their names have a hash of their content.
HASHED = "assets/"
FOREVER, CHECKED = "public, max-age=31536000, immutable", "no-cache"
# Of zlib: a piece of a file, 64 KiB, takes 2 ms of the event loop.
GZIP_LEVEL = 6


def make_page(folder: Path = FOLDER) -> ASGIApp | None:
    """The application of the files of a folder; None if there is no page in it."""
    if not (folder / "index.html").is_file():
        return None
    return GZipMiddleware(_Files(directory=folder, html=True), compresslevel=GZIP_LEVEL)


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            response = PlainTextResponse(error.detail, error.status_code, error.headers)
        else:
            lasts = FOREVER if path.startswith(HASHED) else CHECKED
            response.headers["cache-control"] = lasts
        response.headers.update(SECURITY)
        return response
