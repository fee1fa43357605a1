"""Where calls go: targets of one server and of several, and proxies of the environment."""

import socket
import threading
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from tests.client.conftest import NumpyServer, serving
from tests.support.command import run_farpoint

import farpoint
from farpoint._connection.targets import checked_target, grpc_target
from farpoint.v1 import sampling_pb2_grpc

NAMES = {"one": ["10.0.0.1"], "two": ["10.0.0.2", "10.0.0.3"], "six": ["fd00::1"]}


@pytest.fixture
def names(monkeypatch):
    """Names that are known here and nowhere else."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host, port, **kinds):
        try:
            return look_up(host, port, flags=socket.AI_NUMERICHOST, **kinds)
        except socket.gaierror:
            if host not in NAMES:
                raise
        return [entry for known in NAMES[host] for entry in look_up(known, port, **kinds)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    "target",
    ["a:65535", "dns:///a:1", "unix:/run/a,b.sock", "ipv4:10.0.0.1:1,10.0.0.2:2", "[::1]:5"],
)
def test_targets_of_grpc_are_unchanged(target):
    assert grpc_target(checked_target(target))[0] == target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("localhost", "localhost:50051"),
        ("dns:///gpu-node", "dns:///gpu-node:50051"),
        ("[::1]", "[::1]:50051"),
        ("a:1,b", "a:1,b:50051"),
        (["a", "b"], "a:50051,b:50051"),
        (["dns:///a:1"], "dns:///a:1"),
    ],
)
def test_the_default_port_is_50051(given, target):
    assert farpoint.Client(given).target == target


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("given", ["one:1,two:2", " one:1, two:2", ["one:1", "two:2"]])
def test_names_of_a_list_are_looked_up(given):
    place, options = grpc_target(checked_target(given))
    assert place == "ipv4:10.0.0.1:1,10.0.0.2:2,10.0.0.3:2"
    assert dict(options)["grpc.default_authority"] == "one:1"


@pytest.mark.usefixtures("names")
def test_both_kinds_of_addresses_may_stand_in_one_list():
    place, _ = grpc_target(checked_target(["one:1", "six:2", "[::1]:3"]))
    assert place == "ipv6:[::ffff:10.0.0.1]:1,[fd00::1]:2,[::1]:3"


@pytest.mark.usefixtures("names")
def test_a_name_that_is_not_known_is_left_out_unless_it_is_the_last():
    assert grpc_target("one:1,gone:2")[0] == "ipv4:10.0.0.1:1"
    with pytest.raises(farpoint.UnavailableError, match="gone:1,gone:2"):
        grpc_target("gone:1,gone:2")


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (["a:1", "dns:///b:1"], "'dns:///b:1'"),
        ("a:1,b c", "'a:1,b c'"),
        ("a b", "'a b'"),
        ("a:65536", "'a:65536'"),
        ("a:1,b:65536", "'a:1,b:65536'"),
        ("http://a:1", "'http://a:1'"),
        ("https://a:1", "'https://a:1'"),
        ("", "''"),
        ([], "''"),
    ],
)
def test_an_invalid_target_is_named(target, named):
    with pytest.raises(farpoint.InvalidArgumentError, match="HOST:PORT") as caught:
        farpoint.Client(target)
    assert named in str(caught.value)
    assert caught.value.field == "target"


def test_calls_go_to_each_server_in_turn(cloud):
    servers = NumpyServer(), NumpyServer()
    add = sampling_pb2_grpc.add_SamplingServiceServicer_to_server
    with (
        serving((add, servers[0])) as one,
        serving((add, servers[1])) as two,
        farpoint.Client([one, two]) as client,
    ):
        while not all(server.requests for server in servers):  # until both are connected
            client.sample(cloud, 1)
        for server in servers:
            server.requests.clear()
        for _ in range(10):
            client.sample(cloud, 1)
    assert [len(server.requests) for server in servers] == [5, 5]


def test_a_wrong_retry_budget_is_named():
    farpoint.Client("a:1", retry_budget=0), farpoint.Client("a:1", retry_budget=500)
    for wrong in (-1, 501):
        with pytest.raises(farpoint.InvalidArgumentError, match="0 to 500") as caught:
            farpoint.Client("a:1", retry_budget=wrong)
        assert caught.value.field == "retry_budget"


CLOUD = np.zeros((4, 3), np.float32)
VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
# Of a block for documentation: no packet to it is answered.
FAR = "192.0.2.1:50051"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No variable of a proxy but those of the test."""
    for name in (*VARIABLES, "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.fixture
def proxy() -> Iterator[str]:
    """A proxy that takes connections and refuses each CONNECT."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        host, port = listener.getsockname()
        yield f"http://me:secret@{host}:{port}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def socket_target(server: NumpyServer, tmp_path) -> Iterator[str]:
    """The test server at a Unix socket."""
    from concurrent.futures import ThreadPoolExecutor

    other = grpc.server(ThreadPoolExecutor(1))
    sampling_pb2_grpc.add_SamplingServiceServicer_to_server(server, other)
    target = f"unix:{tmp_path}/a.sock"
    other.add_insecure_port(target)
    other.start()
    yield target
    other.stop(None).wait()


async def test_calls_to_this_machine_never_go_through_a_proxy(
    environment, proxy, server, socket_target
):
    for name in (*VARIABLES, *map(str.upper, VARIABLES)):
        environment.setenv(name, proxy)
    port = server.target.rpartition(":")[2]
    forms = ("ipv4:127.0.0.1:{0}", "dns:localhost:{0}", "dns:///127.0.0.1:{0}")
    targets = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "LOCALHOST")] + [
        form.format(port) for form in forms
    ]
    targets += [f"127.0.0.1:{port},localhost:{port}", socket_target]
    for target in targets:
        with farpoint.Client(target, timeout=30) as client:
            assert len(client.sample(CLOUD, 2)) == 2, target
            assert [len(each.sample) for each in client.sample_stream([CLOUD], 2)] == [2]
        async with farpoint.AsyncClient(target, timeout=30) as client:
            assert len(await client.sample(CLOUD, 2)) == 2, target
    assert run_farpoint("info", "--server", server.target).exit_code == 0


@pytest.mark.parametrize("name", VARIABLES)
async def test_an_error_elsewhere_names_the_variable_without_its_password(environment, proxy, name):
    environment.setenv(name, proxy)
    with farpoint.Client(FAR, retry_budget=0) as client:
        with pytest.raises(farpoint.UnavailableError) as caught:
            client.sample(CLOUD, 2)
        with pytest.raises(farpoint.UnavailableError) as streamed:
            list(client.sample_stream([CLOUD], 2))
    async with farpoint.AsyncClient(FAR, retry_budget=0) as client:
        with pytest.raises(farpoint.UnavailableError) as awaited:
            await client.sample(CLOUD, 2)
    failed = run_farpoint("info", "--server", FAR)
    for text in (
        caught.value.message,
        streamed.value.message,
        awaited.value.message,
        failed.stderr,
    ):
        assert f"no connection to {FAR}" in text
        assert "HTTP proxy returned response code 403" in text
        assert f"the environment sets {name}=127.0.0.1:" in text
        assert "secret" not in text
        assert "make serve" not in text


def test_a_proxy_that_does_not_answer_is_named_too(environment):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment.setenv("http_proxy", f"http://127.0.0.1:{silent.getsockname()[1]}")
        environment.setenv("no_proxy", "10.0.0.0/8")
        with (
            farpoint.Client(FAR, timeout=1) as client,
            pytest.raises(farpoint.DeadlineExceededError) as caught,
        ):
            client.sample(CLOUD, 2)
    assert "http_proxy=http://127.0.0.1:" in caught.value.message
    assert "no_proxy=10.0.0.0/8" in caught.value.message


def test_an_upper_case_name_is_said_to_be_without_effect(environment, proxy):
    environment.setenv("HTTPS_PROXY", proxy)
    with (
        farpoint.Client("gpu.invalid", retry_budget=0) as client,
        pytest.raises(farpoint.UnavailableError) as caught,
    ):
        client.server_info()
    assert "HTTPS_PROXY=127.0.0.1:" in caught.value.message
    assert "gRPC reads lower case names" in caught.value.message


def test_errors_at_this_machine_name_no_proxy(environment, proxy):
    environment.setenv("http_proxy", proxy)
    with (
        farpoint.Client("127.0.0.1:1", timeout=30) as client,
        pytest.raises(farpoint.UnavailableError, match="no server answers") as error,
    ):
        client.server_info()
    assert "http_proxy" not in error.value.message
