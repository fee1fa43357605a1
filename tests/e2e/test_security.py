"""A server with mTLS, tokens, HTTP and an admin port, through the clients and in its log."""

import http.client
import ssl
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.messages import sample_request
from tests.support.servers.certificates import Files, issue
from tests.support.servers.http_caller import HTTP, PATIENCE_S, HttpCaller
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint.v1 import sampling_pb2

CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)
CAMERA, OPS, LATER = (f"{name}-{name * 6}-secret" for name in ("camera", "opsops", "lateron"))
UNKNOWN = "not-a-known-token"
SECRETS = (CAMERA, OPS, LATER, UNKNOWN, "PRIVATE KEY")
MEMORY = "/farpoint.v1.AdminService/GetMemory"


class Secured:
    """The server, and the files that it was started with."""

    def __init__(self, folder: Path) -> None:
        self.files: Files = issue(folder / "server")
        self.strange: Files = issue(folder / "strange")
        self.tokens = folder / "tokens"
        self.tokens.write_text(f"camera sample {CAMERA}\nops admin {OPS}\n")
        self.admin = f"unix:{folder}/admin.sock"
        self.server = RunningServer(
            *self.files.flags(client_ca=self.files.ca),
            *("--tokens-file", str(self.tokens), "--admin-listen", self.admin),
            *(*HTTP, "--probe-listen", "127.0.0.1:0", "--log-level", "debug"),
        )
        self.tls = farpoint.Tls(*vars(self.files).values())

    def client(self, token: str | None = CAMERA, tls: farpoint.Tls | None = None):
        return farpoint.Client(self.server.address, tls=tls or self.tls, token=token, timeout=60)

    def http(self, shown: Files | None, trusted: Files) -> HttpCaller:
        """A caller over HTTP that shows a certificate and trusts an authority."""
        context = ssl.create_default_context(cafile=str(trusted.ca))
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return HttpCaller(self.server, context)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory):
    secured = Secured(tmp_path_factory.mktemp("secured"))
    yield secured
    assert not [line for line in secured.server.log if "beyond loopback" in line["event"]]
    assert secured.server.stop() == 0


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


async def test_certificate_and_token_open_the_service(secured):
    with secured.client() as client:
        assert len(client.sample(CLOUD, 3)) == 3
    tls = secured.tls
    async with farpoint.AsyncClient(secured.server.address, tls=tls, token=CAMERA) as client:
        assert len(await client.sample(CLOUD, 3)) == 3
    with secured.http(secured.files, secured.files) as caller:
        assert caller.call_json("GetServerInfo", {}, **bearer(CAMERA)).json["version"]
    line = secured.server.wait_for(lambda line: line.get("protocol") == "connect")
    assert line["caller"] == "camera"


@pytest.mark.parametrize(
    ("token", "error", "reason", "status"),
    [
        (None, farpoint.UnauthenticatedError, "expected metadata authorization: Bearer TOKEN", 401),
        (UNKNOWN, farpoint.UnauthenticatedError, "not known", 401),
        (OPS, farpoint.PermissionDeniedError, "the token of 'ops' lacks the scope 'sample'", 403),
    ],
)
def test_another_token_is_refused(secured, token, error, reason, status):
    with secured.client(token) as client, pytest.raises(error, match=reason) as caught:
        client.sample(CLOUD, 3)
    line = secured.server.wait_for(lambda line: line.get("request_id") == caught.value.request_id)
    assert line["status"] in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    with secured.http(secured.files, secured.files) as caller:
        assert caller.call_json("GetServerInfo", {}, **bearer(token)).status == status
        assert caller.request("GET", "/v2", **bearer(token)).status == status


def test_another_certificate_does_not_connect(secured):
    strange, files = secured.strange, secured.files
    wrong = {
        "another authority is trusted": farpoint.Tls(strange.ca, files.certificate, files.key),
        "a client of another authority": farpoint.Tls(files.ca, strange.certificate, strange.key),
        "a client without certificate": farpoint.Tls(files.ca),
    }
    for tls in wrong.values():
        with secured.client(tls=tls) as client, pytest.raises(farpoint.UnavailableError):
            client.server_info(timeout=30)
    with farpoint.Client(secured.server.address) as plain, pytest.raises(farpoint.UnavailableError):
        plain.server_info(timeout=30)
    callers = secured.http(strange, files), secured.http(files, strange), HttpCaller(secured.server)
    for caller in callers:
        with caller, pytest.raises((ssl.SSLError, ConnectionError)):
            caller.call_json("GetServerInfo", {}, **bearer(CAMERA))


def test_the_probe_port_is_plain_text_and_has_health_only(secured):
    health, absent = (200, b"SERVING\n"), (404, b"Not Found")
    for path in ("/healthz", "/readyz", "/", "/metrics", MEMORY, "/v2/health/ready"):
        address = secured.server.ready["probe_address"]
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (health if path.endswith("z") else absent)
        connection.close()


def test_administration_is_on_its_own_port_with_its_own_scope(secured):
    with secured.client(OPS) as client:
        for call in (client.memory, client.trim_memory, lambda: client.unload_model("pool")):
            with pytest.raises(farpoint.UnimplementedError, match="addresses of --admin-listen"):
                call()
    with secured.http(secured.files, secured.files) as caller:
        assert caller.call_json(MEMORY, {}, **bearer(OPS)).status == 404
    with farpoint.Client(secured.admin, token=OPS) as admin:
        assert admin.memory().devices[0].device == "cpu"
        with pytest.raises(farpoint.UnimplementedError):
            admin.sample(CLOUD, 3)
    for token, error in (
        (CAMERA, farpoint.PermissionDeniedError),
        (None, farpoint.UnauthenticatedError),
    ):
        with farpoint.Client(secured.admin, token=token) as client, pytest.raises(error):
            client.memory()


def test_an_open_stream_ends_with_its_token(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"camera sample {CAMERA}\nlater sample {LATER}\n")
    server, over = start("--tokens-file", str(tokens)), threading.Event()

    def requests():
        yield sampling_pb2.SampleStreamRequest(request=sample_request(CLOUD, 3))
        over.wait(60)

    with server.connected() as stub:
        kept, lost = (
            stub.SampleStream(requests(), metadata=[*bearer(token).items()])
            for token in (LATER, CAMERA)
        )
        assert next(kept).HasField("response")
        assert next(lost).HasField("response")
        tokens.write_text(f"later sample {LATER}\n")
        with pytest.raises(grpc.RpcError, match="the token was revoked") as caught:
            next(lost)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert kept.is_active()
        over.set()


def test_a_server_that_is_open_to_other_machines_warns_and_of_a_variable_that_is_no_setting(
    start, monkeypatch
):
    monkeypatch.setenv("FARPOINT_LISTN", "secret")
    server = start("--listen", "0.0.0.0:0")
    warnings = [line for line in server.log if line["level"] == "warning"]
    assert [line["addresses"] for line in warnings if "addresses" in line] == [["0.0.0.0:0"]]
    variables = [line["variables"] for line in warnings if "variables" in line]
    assert variables == [["FARPOINT_LISTN (perhaps FARPOINT_LISTEN)"]]


def test_files_are_read_again_and_nothing_secret_is_ever_logged(secured, tmp_path):
    """The last test of this server, whose files it replaces."""
    with secured.client() as up:
        up.sample(CLOUD, 3)
        secured.tokens.write_text(f"later sample {LATER}\n")
        with pytest.raises(farpoint.UnauthenticatedError):
            up.sample(CLOUD, 3)
    former = issue(tmp_path / "former")
    former.replace_with(secured.files)
    secured.files.replace_with(secured.strange)
    with secured.client(LATER) as client:
        assert len(client.sample(CLOUD, 3)) == 3
    with secured.http(None, secured.strange) as caller:
        assert caller.request("GET", "/healthz").status == 200
    trusts_former = farpoint.Tls(former.ca, former.certificate, former.key)
    with (
        secured.client(LATER, tls=trusts_former) as client,
        pytest.raises(farpoint.UnavailableError),
    ):
        client.server_info(timeout=30)
    secured.tokens.write_text(f"later sample {LATER} {LATER}\n")
    with secured.client(LATER) as client:
        client.server_info()
    secured.server.wait_for(lambda line: line["level"] == "warning")
    secured.server.wait_for(lambda line: line.get("caller") == "later")
    keys = [line for line in secured.strange.key.read_text().splitlines() if "---" not in line]
    for line in secured.server.log:
        assert not [secret for secret in (*SECRETS, *keys) if secret in str(line)]
