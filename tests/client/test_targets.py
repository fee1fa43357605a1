"""Targets of one server and of several, and their form for gRPC."""

import socket

import pytest
from tests.client.conftest import NumpyServer, serving

import farpoint
from farpoint._connection.targets import checked_target, grpc_target
from farpoint.v1 import sampling_pb2_grpc

NAMES = {"one": ["10.0.0.1"], "two": ["10.0.0.2", "10.0.0.3"], "six": ["fd00::1"]}


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("given", ["one:1,two:2", " one:1, two:2", ["one:1", "two:2"]])
def test_names_of_a_list_are_looked_up(given):
    place, options = grpc_target(checked_target(given))
    assert place == "ipv4:10.0.0.1:1,10.0.0.2:2,10.0.0.3:2"
    assert dict(options)["grpc.default_authority"] == "one:1"


def test_both_kinds_of_addresses_may_stand_in_one_list():
    place, _ = grpc_target(checked_target(["one:1", "six:2", "[::1]:3"]))
    assert place == "ipv6:[::ffff:10.0.0.1]:1,[fd00::1]:2,[::1]:3"


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


@pytest.mark.parametrize(
    ("policy", "used"), [("round_robin", 2), ("weighted_round_robin", 2), ("pick_first", 1)]
)
def test_calls_go_to_all_servers_or_to_one(cloud, policy, used):
    servers = NumpyServer(), NumpyServer()
    add = sampling_pb2_grpc.add_SamplingServiceServicer_to_server
    with (
        serving((add, servers[0])) as one,
        serving((add, servers[1])) as two,
        farpoint.Client([one, two], load_balancing=policy) as client,
    ):
        for _ in range(100):
            client.sample(cloud, 1)
    assert sum(bool(server.requests) for server in servers) == used


def test_wrong_settings_of_the_balance_are_named():
    with pytest.raises(farpoint.InvalidArgumentError, match="weighted_round_robin") as caught:
        farpoint.Client("a:1", load_balancing="random")
    assert caught.value.field == "load_balancing"
    farpoint.Client("a:1", retry_budget=0), farpoint.Client("a:1", retry_budget=500)
    for wrong in (-1, 501):
        with pytest.raises(farpoint.InvalidArgumentError, match="0 to 500") as caught:
            farpoint.Client("a:1", retry_budget=wrong)
        assert caught.value.field == "retry_budget"
