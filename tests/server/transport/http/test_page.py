"""Files of the page: types, caching, gzip and the headers that bound what it may do."""

import asyncio
import gzip
import http.client
import threading

import pytest

from farpoint_server.transport.http.page import SECURITY, PageApp
from farpoint_server.transport.http.server import HttpServer

SCRIPT = b"export const words = 'a line that is much like the others';\n" * 100


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Asks for a path of a small page, with headers."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "main-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets" / "noise.bin").write_bytes(bytes(range(256)))
    (folder / "assets" / "notes.unknown").write_text("not served")
    (folder.parent / "secret.txt").write_text("not served")
    server = HttpServer("--http-listen", "127.0.0.1:0")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(PageApp(folder)), loop).result(60)
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)

    def ask(path="/", verb="GET", **headers):
        connection.request(verb, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()

    yield ask
    connection.close()
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


@pytest.mark.parametrize(
    ("path", "kind", "cache"),
    [
        ("/", "text/html; charset=utf-8", "no-cache"),
        ("/index.html", "text/html; charset=utf-8", "no-cache"),
        (
            "/assets/main-1a2b.js",
            "text/javascript; charset=utf-8",
            "public, max-age=31536000, immutable",
        ),
    ],
)
def test_a_file_has_its_type_and_how_long_it_holds(page, path, kind, cache):
    status, headers, body = page(path)
    assert (status, headers["content-type"], headers["cache-control"]) == (200, kind, cache)
    assert len(body) == int(headers["content-length"]) > 0
    for name, value in SECURITY:
        assert headers[name] == value


def test_the_policy_allows_no_script_but_files_of_the_server(page):
    policy = page()[1]["content-security-policy"]
    assert "default-src 'none'" in policy
    for unsafe in ("'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"):
        assert unsafe not in policy.replace("'wasm-unsafe-eval'", "")


def test_what_a_browser_has_is_not_sent_again(page):
    _, headers, _ = page("/assets/main-1a2b.js")
    tag = headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        status, again, body = page("/assets/main-1a2b.js", if_none_match=known)
        assert (status, body, again["etag"]) == (304, b"", tag)
    assert page("/assets/main-1a2b.js", if_none_match='"other"')[0] == 200
    assert page("/", if_none_match=tag)[0] == 200


def test_gzip_is_used_where_it_helps_and_is_understood(page):
    _, plain, body = page("/assets/main-1a2b.js")
    _, packed, small = page("/assets/main-1a2b.js", accept_encoding="br, gzip")
    assert "content-encoding" not in plain
    assert (packed["content-encoding"], gzip.decompress(small)) == ("gzip", body)
    assert (plain["vary"], packed["vary"]) == ("accept-encoding",) * 2
    assert plain["etag"] != packed["etag"]
    assert "content-encoding" not in page("/assets/noise.bin", accept_encoding="gzip")[1]


@pytest.mark.parametrize(
    "path",
    [
        "/assets",
        "/assets/",
        "/assets/notes.unknown",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/index.html/",
        "/index.html%00",
    ],
)
def test_there_is_nothing_else(page, path):
    status, headers, _ = page(path)
    assert status == 404
    assert headers["content-security-policy"]


def test_head_and_other_verbs(page):
    status, headers, body = page(verb="HEAD")
    assert (status, headers["content-length"], body) == (200, "15", b"")


def test_a_server_without_a_page_says_not_found(tmp_path):
    assert not PageApp(tmp_path / "absent").is_there
