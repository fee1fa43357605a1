"""The HTTP port under TLS, tokens and foreign web pages: the rules of the gRPC port."""

import http.client
import ssl
import urllib.request
from pathlib import Path

import pytest
from tests.support.servers.certificates import Files, issue
from tests.support.servers.http_caller import HTTP, PATIENCE_S, HttpCaller
from tests.support.servers.server_process import RunningServer

CAMERA, OPS = (f"{name}-{name * 6}-secret" for name in ("camera", "opsops"))
MEMORY = "/farpoint.v1.AdminService/GetMemory"
OWN = "https://viewer.example"


class Secured:
    """A server with mTLS and tokens, and the files that it was started with."""

    def __init__(self, folder: Path) -> None:
        self.files: Files = issue(folder / "server")
        self.strange: Files = issue(folder / "strange")
        (folder / "tokens").write_text(f"camera sample {CAMERA}\nops admin,sample {OPS}\n")
        self.server = RunningServer(
            *self.files.flags(client_ca=self.files.ca),
            *("--tokens-file", str(folder / "tokens"), "--admin-listen", "127.0.0.1:0", *HTTP),
            *("--probe-listen", "127.0.0.1:0"),
        )

    def http(self, shown: Files | None, trusted: Files | None = None) -> HttpCaller:
        """A caller that trusts an authority and shows a certificate."""
        context = ssl.create_default_context(cafile=str((trusted or self.files).ca))
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return HttpCaller(self.server, context)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    secured = Secured(tmp_path_factory.mktemp("secured"))
    yield secured
    assert secured.server.stop() == 0


def ask(http: HttpCaller, token: str | None = CAMERA, method: str = "GetServerInfo"):
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return http.call_json(method, {}, **headers)


def test_certificate_and_token_open_the_service(secured):
    with secured.http(secured.files) as http:
        assert ask(http).json["version"]
        assert http.request("GET", "/healthz").body == b"SERVING\n"
    line = secured.server.wait_for(lambda line: line.get("method") == "GetServerInfo")
    assert line["caller"] == "camera"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/healthz", (200, b"SERVING\n")), ("/readyz", (200, b"SERVING\n"))]
    + [(path, (404, b"Not Found")) for path in ("/", "/metrics", MEMORY, "/v2/health/ready")],
)
def test_a_probe_needs_neither_tls_nor_certificate_and_finds_nothing_but_health(
    secured, path, expected
):
    probe = secured.server.ready["probe_address"]
    connection = http.client.HTTPConnection(probe, timeout=PATIENCE_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == expected
    connection.close()


def test_administration_needs_a_token_with_its_scope(secured):
    with secured.http(secured.files) as http:
        for token, status in ((None, 401), ("not-a-known-token", 401), (CAMERA, 403)):
            assert ask(http, token, MEMORY).status == status
        assert ask(http, OPS, MEMORY).json["devices"][0]["device"] == "cpu"


def test_without_a_certificate_there_are_no_calls_but_health_and_metrics(secured):
    """Probes of an orchestrator have none."""
    with secured.http(None) as http:
        answer = ask(http)
        assert (answer.status, answer.json["code"]) == (401, "unauthenticated")
        assert "client certificate" in answer.json["message"]
        assert http.request("GET", "/healthz").status == 200
        assert b"farpoint_serving 1.0" in http.request("GET", "/metrics").body


def test_strangers_and_plain_text_do_not_connect(secured):
    with secured.http(secured.strange) as http, pytest.raises((ssl.SSLError, ConnectionError)):
        ask(http)
    with secured.http(secured.files, trusted=secured.strange) as http, pytest.raises(ssl.SSLError):
        ask(http)
    with HttpCaller(secured.server) as http, pytest.raises(ConnectionError):
        ask(http)


def test_a_new_certificate_is_used_without_a_restart(start, tmp_path):
    files, later = issue(tmp_path / "files"), issue(tmp_path / "later")
    server = start(*files.flags(), *HTTP)
    ready = server.ready
    url = f"https://{ready['http_address']}/healthz"
    before, after = (ssl.create_default_context(cafile=str(one.ca)) for one in (files, later))
    # Of its own file: that of the server's authority is replaced as well.
    assert urllib.request.urlopen(url, timeout=PATIENCE_S, context=before).status == 200
    files.replace_with(later)
    assert urllib.request.urlopen(url, timeout=PATIENCE_S, context=after).status == 200


def test_foreign_hosts_and_origins_are_refused_unless_they_are_named(start):
    """test_browsers.py has every case."""
    allowing = start(*HTTP, "--http-origins", OWN)
    with HttpCaller(allowing) as http:
        for path in ("/healthz", "/metrics"):
            assert http.request("GET", path, host="evil.example").status == 421
        assert http.call_json("GetServerInfo", {}, host="evil.example").status == 421
        assert http.call_json("GetServerInfo", {}, origin="https://evil.example").status == 403
        answered = http.call_json("GetServerInfo", {}, origin=OWN, host="viewer.example")
        assert answered.status == 200
        assert answered.headers["access-control-allow-origin"] == OWN
