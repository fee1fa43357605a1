"""One process's share of a machine and of the limits."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farpoint_server.config.settings import Settings
from farpoint_server.processes.slot import (
    VARIABLE,
    ProcessSlot,
    from_environment,
    share,
    to_environment,
)


@pytest.mark.parametrize(
    ("processes", "ports", "expected"),
    [
        (1, "abc", ["abc"]),
        (2, "abc", ["ac", "b"]),
        (3, "abc", ["a", "b", "c"]),
        (5, "ab", ["a", "b", "a", "b", "a"]),
        (2, "", ["", ""]),
    ],
)
def test_ports_are_dealt_out_in_turns(processes, ports, expected):
    places = [ProcessSlot(index, processes) for index in range(processes)]
    assert ["".join(slot.own(ports)) for slot in places] == expected


def test_the_engine_comes_after_the_front_ends():
    front_end, engine = ProcessSlot(1, 2, Path("/folder")), ProcessSlot(2, 2, Path("/folder"))
    assert (front_end.is_engine, front_end.name, engine.is_engine, engine.name) == (
        *(False, 1),
        *(True, "engine"),
    )
    assert front_end.engine == engine.engine == Path("/folder/engine")
    assert ProcessSlot().is_alone
    assert not ProcessSlot().is_engine


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
