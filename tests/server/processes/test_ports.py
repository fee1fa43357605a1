"""Ports that the supervisor holds, and each process's share of a machine and of the limits."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.processes.ports import Ports
from farpoint_server.processes.slot import (
    VARIABLE,
    ProcessSlot,
    from_environment,
    share,
    to_environment,
)

ANY = "127.0.0.1:0"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def bind(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_port_0_is_one_port_for_all_and_each_address_keeps_its_role(tmp_path):
    ports = Ports(
        Settings(
            listen=[ANY, "localhost:0"],
            admin_listen=[ANY, f"unix:{tmp_path}/admin"],
            http_listen=ANY,
            probe_listen=ANY,
        )
    )
    taken = ports.settings
    assert taken.admin_listen == (taken.listen[0], f"unix:{tmp_path}/admin")
    addresses = {*taken.listen, taken.http_listen, taken.probe_listen}
    hosts = [address.rpartition(":")[0] for address in taken.listen]
    assert hosts == ["127.0.0.1", "localhost"]
    assert len(addresses) == 4
    assert 0 not in map(port_of, addresses)
    for address in addresses:
        with pytest.raises(OSError, match="in use"):
            bind(port_of(address))
    ports.close()
    for address in addresses:
        bind(port_of(address))


def test_port_0_is_another_port_each_time_and_a_repeated_port_is_one():
    ports = Ports(Settings(listen=[ANY, ANY], http_listen=ANY, admin_listen=[ANY]))
    taken = ports.settings
    assert len({*taken.listen, taken.http_listen}) == 3
    assert taken.admin_listen == taken.listen[:1]
    ports.close()
    repeated = taken.listen[0]
    again = Ports(Settings(listen=[repeated, repeated]))
    assert {*again.settings.listen} == {repeated}
    again.close()


def test_a_port_that_is_only_held_takes_no_connection():
    ports = Ports(Settings(listen=[ANY]))
    place = "127.0.0.1", port_of(ports.settings.listen[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, 30)
    with socket.socket() as ours:  # of one of the processes
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        ours.bind(place)
    ports.close()


def test_administration_on_the_port_of_http_stays_there():
    ports = Ports(Settings(listen=["127.0.0.2:0"], admin_listen=[ANY], http_listen=ANY))
    assert ports.settings.admin_listen == (ports.settings.http_listen,)
    assert ports.settings.admin_over_http
    ports.close()


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_in_use_is_refused_even_if_its_owner_would_share_it(shares):
    with socket.create_server(("127.0.0.1", 0), reuse_port=shares) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        expected = f"--probe-listen {address}: cannot be bound: Address already in use"
        with pytest.raises(StartError, match=expected):
            Ports(Settings(listen=[ANY], probe_listen=address))


def test_a_port_with_lingering_connections_is_free():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        with socket.create_connection((host, port)) as caller:
            listening.accept()[0].close()
            assert caller.recv(1) == b""
    Ports(Settings(listen=[f"{host}:{port}"])).close()


def test_limits_are_whole_and_messages_in_reception_are_shared_out():
    whole = Settings(receive_turns=16)
    half, last = share(whole, ProcessSlot(0, 2)), share(whole, ProcessSlot(0, 64))
    assert (half.receive_turns, last.receive_turns) == (8, 1)
    assert half.model_dump(exclude={"receive_turns", "processes"}) == whole.model_dump(
        exclude={"receive_turns", "processes"}
    )
    assert share(whole, ProcessSlot()) is share(whole, ProcessSlot(2, 2)) is whole


def test_ports_are_dealt_out_in_turns_each_with_its_administration():
    """Addresses of one port stay together."""
    whole = Settings(listen="a:1,127.0.0.1:2,b:1", admin_listen="127.0.0.1:2,127.0.0.1:9")
    first, second, third = (share(whole, ProcessSlot(index, 3)) for index in range(3))
    assert (first.listen, first.admin_listen) == (("a:1", "b:1"), ("127.0.0.1:9",))
    assert (second.listen, second.admin_listen) == (("127.0.0.1:2",), whole.admin_listen)
    assert third == first


def test_a_process_reads_its_slot_and_settings_once(tmp_path, monkeypatch):
    file = tmp_path / "farpoint.yaml"
    file.write_text("batch_points: 5\n")
    given = Settings(config=file, device=("cpu", "cuda:1"), tls_key=None, encoder=())
    sent = ProcessSlot(1, 3, tmp_path, 7, counts=8, models=["a=b"])
    environment = to_environment(sent, given)
    # What has changed since is not heeded.
    file.write_text("batch_points: 6\n")
    monkeypatch.setenv("FARPOINT_BATCH_POINTS", "7")
    slot, settings = from_environment(environment)
    assert slot == replace(sent, parent=os.getpid())
    assert settings.model_dump(exclude={"config"}) == given.model_dump(exclude={"config"})
    assert VARIABLE not in environment
    assert from_environment(environment) is None


CHILD = """
import sys
from farpoint_server.processes.slot import end_with_parent
end_with_parent(int(sys.argv[1]))
print("alive", flush=True)
sys.stdin.read()
"""
PARENT = """
import os, subprocess, sys
with subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())]) as child: child.wait()
"""


def test_a_process_ends_with_its_parent_also_with_one_that_is_gone_already():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], **pipes) as parent:
        assert parent.stdout.readline() == b"alive\n"
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == b""  # which the child holds open, too
    late = subprocess.run([sys.executable, "-c", CHILD, "1"], **{"stdout": subprocess.PIPE})
    assert (late.returncode, late.stdout) == (1, b"")
