"""A server with mTLS, tokens and an admin port, through the client and in its log."""

import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.messages import sample_request
from tests.support.servers.certificates import Files, issue
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint.v1 import sampling_pb2, sampling_pb2_grpc

CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)
CAMERA, OPS, LATER = (f"{name}-{name * 6}-secret" for name in ("camera", "opsops", "lateron"))
SECRETS = (CAMERA, OPS, LATER, "not-a-known-token", "PRIVATE KEY")


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
            *("--log-level", "debug"),
        )

    @property
    def tls(self) -> farpoint.Tls:
        return farpoint.Tls(*vars(self.files).values())

    def client(self, token: str | None = CAMERA, tls: farpoint.Tls | None = None):
        return farpoint.Client(self.server.address, tls=tls or self.tls, token=token, timeout=60)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory):
    secured = Secured(tmp_path_factory.mktemp("secured"))
    yield secured
    assert not [line for line in secured.server.log if "beyond loopback" in line["event"]]
    assert secured.server.stop() == 0


async def test_certificate_and_token_open_the_service(secured):
    with secured.client() as client:
        assert len(client.sample(CLOUD, 3)) == 3
    tls = secured.tls
    async with farpoint.AsyncClient(secured.server.address, tls=tls, token=CAMERA) as client:
        assert len(await client.sample(CLOUD, 3)) == 3


@pytest.mark.parametrize(
    ("token", "error", "reason"),
    [
        (None, farpoint.UnauthenticatedError, "expected metadata authorization: Bearer TOKEN"),
        ("not-a-known-token", farpoint.UnauthenticatedError, "not known"),
        (OPS, farpoint.PermissionDeniedError, "the token of 'ops' lacks the scope 'sample'"),
    ],
)
def test_another_token_does_not(secured, token, error, reason):
    with secured.client(token) as client, pytest.raises(error, match=reason) as caught:
        client.sample(CLOUD, 3)
    line = secured.server.wait_for(lambda line: line.get("request_id") == caught.value.request_id)
    assert line["status"] in ("UNAUTHENTICATED", "PERMISSION_DENIED")


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


def test_administration_is_on_its_own_port_with_its_own_scope(secured):
    with secured.client(OPS) as client, pytest.raises(farpoint.UnimplementedError):
        client.memory()
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
    server = start("--tokens-file", str(tokens))
    with (
        grpc.insecure_channel(server.address) as channel,
        farpoint.Client(server.address, token=LATER, timeout=60) as later,
    ):
        kept, lost = (open_stream(channel, token) for token in (LATER, CAMERA))
        tokens.write_text(f"later sample {LATER}\n")
        with pytest.raises(grpc.RpcError, match="the token was revoked") as caught:
            next(lost)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        later.sample(CLOUD, 3)
        tokens.write_text("")
        server.wait_for(lambda line: line["level"] == "warning")
        with pytest.raises(grpc.RpcError, match="the token was revoked"):
            next(kept)
        server.wait_for(lambda line: "contents revoked" in line["event"])
        with pytest.raises(farpoint.UnauthenticatedError):
            later.sample(CLOUD, 3)


def open_stream(channel: grpc.Channel, token: str):
    """A SampleStream that was answered once and whose sender does not go on."""
    first, over = (
        sampling_pb2.SampleStreamRequest(request=sample_request(CLOUD, 3)),
        threading.Event(),
    )

    def requests():
        yield first
        over.wait(60)

    stub = sampling_pb2_grpc.SamplingServiceStub(channel)
    stream = stub.SampleStream(requests(), metadata=[("authorization", f"Bearer {token}")])
    next(stream)
    stream.add_callback(over.set)
    return stream


def test_a_server_that_is_open_to_other_machines_says_so(start):
    server = start("--listen", "0.0.0.0:0")
    (warning,) = [line for line in server.log if line["level"] == "warning"]
    assert warning["addresses"] == ["0.0.0.0:0"]


def test_two_addresses_and_administration_speak_tls(start, tmp_path):
    files = issue(tmp_path / "files")
    flags = ["--listen", "localhost:0", "--admin-listen", "127.0.0.1:00"]
    server = start(*flags, *files.flags(client_ca=files.ca))
    ready = server.ready
    tls = farpoint.Tls(*vars(files).values())
    assert len(ready["addresses"]) == 2
    for address in ready["addresses"]:
        with farpoint.Client(address, tls=tls, timeout=60) as client:
            assert len(client.sample(CLOUD, 3)) == 3
    (admin_address,) = ready["admin_addresses"]
    with farpoint.Client(admin_address, tls=tls, timeout=60) as admin:
        assert admin.memory().devices[0].device == "cpu"
    assert server.stop() == 0


def test_files_are_read_again_and_nothing_secret_is_ever_logged(secured, tmp_path):
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
