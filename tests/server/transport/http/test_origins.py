"""Foreign web pages: which hosts and origins may call a server, and what CORS tells browsers."""

import pytest
from starlette.responses import PlainTextResponse
from tests.support.servers.asgi import ask

from farpoint_server.transport.http.origins import ALLOWED, EXPOSED, guard

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


async def test_an_allowed_page_is_told_by_cors_what_it_may_send_and_read():
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
