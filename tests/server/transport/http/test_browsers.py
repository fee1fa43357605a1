"""Browsers: which hosts and origins may call a server, and files of the page."""

import gzip

import pytest
from starlette.responses import PlainTextResponse
from tests.support.rpc import ask

from farpoint_server.transport.http.origins import ALLOWED, EXPOSED, guard
from farpoint_server.transport.http.page import SECURITY, make_page

OWN = "https://Viewer.example"
LOCAL, OPEN = "127.0.0.1:80", "0.0.0.0:80"
APP = PlainTextResponse("yes")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("192.0.2.1", 200),
        ("localhost", 200),
        ("LOCALHOST:5", 200),
        ("demo.localhost:80", 200),
        ("[::1]:80", 200),
        ("viewer.example:443", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("a@127.0.0.1", 421),
        ("127.0.0.1/a", 421),
        ("[::1", 421),
        ("[fe80::1%25evil.example]", 421),
        ("[fe80::1%eth0]:80", 421),
        ("", 421),
    ],
)
@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_on_loopback_a_foreign_name_reaches_nothing(host, status, verb):
    """To a browser, a page of evil.example whose name now leads here is of the same origin."""
    answer = await ask(guard(APP, LOCAL, [OWN]), verb=verb, host=host)
    assert answer.status == status
    if status == 421:
        assert b"--http-origins" in answer.body
    assert (await ask(guard(APP, OPEN, [OWN]), verb=verb, host=host)).status == 200
    assert (await ask(guard(APP, LOCAL, ["*"]), verb=verb, host=host)).status == 200


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"host": "gpu.example:8080", "origin": "http://GPU.example:8080"}, True),
        ({"host": "gpu.example:8080", "origin": "http://gpu.example"}, False),
        ({"host": "gpu.example", "origin": OWN.lower()}, True),
        ({"host": "gpu.example", "origin": OWN.upper()}, True),
        ({"host": "gpu.example", "origin": "https://evil.example"}, False),
        ({"host": "gpu.example", "origin": "null"}, False),
    ],
)
async def test_pages_of_other_origins_may_not_have_work_done(headers, allowed):
    app = guard(APP, OPEN, [OWN])
    assert (await ask(app, verb="POST", **headers)).status == (200 if allowed else 403)
    assert (await ask(app, verb="GET", **headers)).status == 200  # CORS keeps the answer from it
    assert (await ask(guard(APP, OPEN, ["*"]), verb="POST", **headers)).status == 200


async def test_cors_names_what_an_allowed_page_may_send_and_read():
    app, page = guard(APP, LOCAL, [OWN]), {"origin": OWN, "host": "localhost"}
    asking = {
        "access_control_request_method": "POST",
        "access_control_request_headers": ",".join(ALLOWED),
    }
    answer = await ask(app, verb="OPTIONS", **page, **asking)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, OWN)
    asking["access_control_request_method"] = "PUT"
    assert (await ask(app, verb="OPTIONS", **page, **asking)).status == 400
    headers = (await ask(app, verb="POST", **page)).headers
    assert headers["access-control-allow-origin"] == OWN
    assert headers["access-control-expose-headers"] == ", ".join(EXPOSED)
    for one in (guard(APP, LOCAL, []), app):
        foreign = await ask(one, **{**page, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in foreign.headers


SCRIPT = b"export const words = 'a line that is much like the others';\n" * 100


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Asks for a path of a small page, with headers."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "main-1a2b.js").write_bytes(SCRIPT)
    (folder.parent / "secret.txt").write_text("not served")
    app = make_page(folder)

    async def get(path="/", verb="GET", **headers):
        answer = await ask(app, path, verb, **headers)
        return answer.status, answer.headers, answer.body

    return get


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
async def test_a_file_has_its_type_and_how_long_it_holds(page, path, kind, cache):
    status, headers, body = await page(path)
    assert (status, headers["content-type"], headers["cache-control"]) == (200, kind, cache)
    assert len(body) == int(headers["content-length"]) > 0
    assert SECURITY.items() <= headers.items()


async def test_the_policy_allows_no_script_but_files_of_the_server(page):
    policy = (await page())[1]["content-security-policy"]
    assert "default-src 'none'" in policy
    for unsafe in ("'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"):
        assert unsafe not in policy.replace("'wasm-unsafe-eval'", "")


async def test_what_a_browser_has_is_not_sent_again(page):
    _, headers, _ = await page("/assets/main-1a2b.js")
    tag = headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        status, again, body = await page("/assets/main-1a2b.js", if_none_match=known)
        assert (status, body, again["etag"]) == (304, b"", tag)
    assert (await page("/assets/main-1a2b.js", if_none_match='"other"'))[0] == 200
    assert (await page("/", if_none_match=tag))[0] == 200


async def test_gzip_is_used_where_it_is_understood(page):
    _, plain, body = await page("/assets/main-1a2b.js")
    _, packed, small = await page("/assets/main-1a2b.js", accept_encoding="br, gzip")
    assert "content-encoding" not in plain
    assert (packed["content-encoding"], gzip.decompress(small)) == ("gzip", body)
    assert plain["vary"] == packed["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "path",
    [
        "/assets",
        "/assets/",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/index.html%00",
    ],
)
async def test_there_is_nothing_else(page, path):
    status, headers, _ = await page(path)
    assert status == 404
    assert headers["content-security-policy"]


async def test_other_verbs_are_not_allowed(page):
    status, headers, _ = await page(verb="HEAD")  # whose body the connection leaves out
    assert (status, headers["content-length"]) == (200, "15")
    status, headers, _ = await page(verb="PUT")
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_a_folder_without_a_page_has_none(tmp_path):
    assert make_page(tmp_path) is None
