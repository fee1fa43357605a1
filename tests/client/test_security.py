"""TLS and tokens of clients, and those of the environment."""

import pickle

import grpc
import numpy as np
import pytest
from tests.client.conftest import serving
from tests.support.command import run_farpoint
from tests.support.servers.certificates import issue

import farpoint
from farpoint._connection.security import read_security
from farpoint._default import default_client
from farpoint.v1 import sampling_pb2_grpc

TOKEN = "a-token-for-tests"
FAR = "gpu-node.example.com:50051"


@pytest.fixture
def files(tmp_path):
    return issue(tmp_path / "files")


@pytest.fixture
def tls_target(server, files):
    """The test server again, behind mTLS."""
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    credentials = grpc.ssl_server_credentials(
        [pair], files.ca.read_bytes(), require_client_auth=True
    )
    add = sampling_pb2_grpc.add_SamplingServiceServicer_to_server
    with serving((add, server), credentials=credentials) as target:
        yield target


def tls_of(files, **more):
    return farpoint.Tls(files.ca, files.certificate, files.key, **more)


def authorization(server):
    return server.metadata[-1].get("authorization")


def test_a_token_goes_with_every_call_over_tls(tls_target, files, server, cloud):
    with farpoint.Client(tls_target, tls=tls_of(files), token=TOKEN) as client:
        client.sample(cloud, 3)
    assert authorization(server) == f"Bearer {TOKEN}"
    assert TOKEN not in repr(client.__dict__)


def test_a_certificate_of_another_name_needs_that_name(tls_target, files, cloud):
    with farpoint.Client(tls_target, tls=tls_of(files, server_name="localhost")) as client:
        assert len(client.sample(cloud, 3)) == 3
    wrong = tls_of(files, server_name="another.example.com")
    with farpoint.Client(tls_target, tls=wrong) as client, pytest.raises(farpoint.UnavailableError):
        client.server_info(timeout=30)


def test_to_this_machine_a_token_goes_in_plain_text(server, cloud):
    port = server.target.partition(":")[2]
    for target in (server.target, f"localhost:{port}", f"dns:///localhost:{port}"):
        with farpoint.Client(target, token=TOKEN) as client:
            client.sample(cloud, 3)
        assert authorization(server) == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "target",
    [FAR, f"dns:///{FAR}", "10.0.0.7:1", "0.0.0.0:1", "[2001:db8::1]:1", "127.0.0.1:1,10.0.0.1:2"],
)
def test_to_another_machine_it_does_not(target):
    with pytest.raises(farpoint.InvalidArgumentError, match="in plain text: give tls") as caught:
        farpoint.Client(target, token=TOKEN)
    assert caught.value.field == "token"


@pytest.mark.parametrize("target", ["[::1]:1", "ipv6:[::1]:1", "ipv4:127.0.0.3:1", "unix:/a", FAR])
def test_loopback_and_tls_will_do(target):
    assert read_security(target, tls=target == FAR, token=TOKEN).credentials is not None


@pytest.mark.parametrize("token", ["", "two words", "new\nline", "grün"])
def test_a_token_that_cannot_be_sent_is_not_repeated(token):
    with pytest.raises(farpoint.InvalidArgumentError, match="printable ASCII") as caught:
        farpoint.Client(token=token)
    assert not token or token not in str(caught.value)


def test_wrong_files_are_named(files, tmp_path):
    wrong = {
        "No such file": tmp_path / "none.pem",
        "README.md": "README.md",
        "belong together": farpoint.Tls(certificate=files.certificate),
        "(?i)mismatch": farpoint.Tls(
            certificate=files.certificate, key=issue(tmp_path / "other").key
        ),
    }
    for message, tls in wrong.items():
        with pytest.raises(farpoint.InvalidArgumentError, match=message) as caught:
            farpoint.Client(FAR, tls=tls)
        assert caught.value.field == "tls"


def test_credentials_of_grpc_take_the_place_of_tls(tls_target, files, server, cloud):
    names = (files.ca, files.key, files.certificate)
    credentials = grpc.ssl_channel_credentials(*(name.read_bytes() for name in names))
    with farpoint.Client(tls_target, credentials=credentials, token=TOKEN) as client:
        client.sample(cloud, 3)
    assert authorization(server) == f"Bearer {TOKEN}"
    with pytest.raises(farpoint.InvalidArgumentError, match="not both"):
        farpoint.Client(tls_target, credentials=credentials, tls=True)


def test_the_command_takes_them_before_its_own_options(tls_target, files, server, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "a.csv").write_text("1,2,3\n")
    names = ("ca", "certificate", "key")
    flags = [word for name in names for word in (f"--{name}", str(getattr(files, name)))]
    words = f"sample {tmp_path}/a.csv -m 1 -o {tmp_path}/b.csv --server {tls_target}"
    sample = words.split()
    done = run_farpoint(*flags, "--token-file", tmp_path / "token", *sample)
    assert done.exit_code == 0, done.output
    assert authorization(server) == f"Bearer {TOKEN}"
    variables = {f"FARPOINT_{name.upper()}": str(getattr(files, name)) for name in names}
    done = run_farpoint(*sample, env={**variables, "FARPOINT_TOKEN": "another"})
    assert done.exit_code == 0, done.output
    assert authorization(server) == "Bearer another"


VARIABLES = ("SERVER", "TLS", "CA", "CERTIFICATE", "KEY", "SERVER_NAME", "TOKEN", "TOKEN_FILE")


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(f"FARPOINT_{name}", raising=False)


def test_one_line_samples_by_the_server_of_the_environment(server, client, cloud, monkeypatch):
    monkeypatch.setenv("FARPOINT_SERVER", server.target)
    sample = farpoint.sample(cloud, 9, attributes=cloud, start=4)
    assert np.array_equal(sample.indices, client.sample(cloud, 9, start=4).indices)
    assert np.array_equal(sample.attributes, sample.points)
    assert [len(s) for s in farpoint.sample([cloud, cloud], [2, 3])] == [2, 3]


def test_the_connection_is_kept_until_the_environment_changes(monkeypatch):
    assert default_client().target == "127.0.0.1:50051"
    monkeypatch.setenv("FARPOINT_SERVER", "host:1")
    first = default_client()
    assert default_client() is first
    monkeypatch.setenv("FARPOINT_SERVER", "host:2")
    assert default_client().target == "host:2"


def test_a_token_and_its_file_go_with_the_call(server, cloud, monkeypatch, tmp_path):
    monkeypatch.setenv("FARPOINT_SERVER", server.target)
    monkeypatch.setenv("FARPOINT_TOKEN", "first")
    farpoint.sample(cloud, 1)
    assert server.metadata[-1]["authorization"] == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    monkeypatch.setenv("FARPOINT_TOKEN_FILE", str(tmp_path / "token"))
    farpoint.sample(cloud, 1)
    assert server.metadata[-1]["authorization"] == "Bearer second"


def test_a_missing_token_file_is_named(cloud, monkeypatch, tmp_path):
    monkeypatch.setenv("FARPOINT_TOKEN_FILE", str(tmp_path / "missing"))
    with pytest.raises(farpoint.InvalidArgumentError, match=r"token file .*missing: No such file"):
        farpoint.sample(cloud, 1)


@pytest.mark.parametrize(
    ("name", "value", "tls"),
    [
        ("TLS", "true", farpoint.Tls()),
        ("TLS", "0", False),
        ("SERVER_NAME", "farpoint", farpoint.Tls(server_name="farpoint")),
    ],
)
def test_tls_as_for_the_command_line(monkeypatch, name, value, tls):
    monkeypatch.setenv(f"FARPOINT_{name}", value)
    expected = farpoint.Client("127.0.0.1:50051", tls=tls)
    assert pickle.dumps(default_client()) == pickle.dumps(expected)
