"""One process's share of a machine and of the limits."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from farpoint_server.config.settings import Settings
from farpoint_server.processes.slot import (
    DIVIDED,
    VARIABLE,
    ProcessSlot,
    from_environment,
    share,
    to_environment,
)


@pytest.mark.parametrize(
    ("processes", "gpus", "expected"),
    [
        (1, "abc", ["abc"]),
        (2, "abc", ["ac", "b"]),
        (3, "abc", ["a", "b", "c"]),
        (5, "ab", ["a", "b", "a", "b", "a"]),
        (2, "", ["", ""]),
    ],
)
def test_gpus_are_dealt_out_in_turns(processes, gpus, expected):
    places = [ProcessSlot(index, processes) for index in range(processes)]
    assert ["".join(slot.own(gpus)) for slot in places] == expected
    for gpu in gpus:
        shared = sum(gpu in own for own in expected)
        assert {slot.sharers(gpu, gpus) for slot in places} == {shared}


def test_each_process_knows_the_others_and_one_alone_has_none():
    slot = ProcessSlot(1, 3, Path("/folder"))
    assert (slot.others, slot.is_alone, slot.peer_address(2)) == ([0, 2], False, "unix:/folder/2")
    alone = ProcessSlot()
    assert (alone.others, alone.is_alone, alone.link, alone.parent) == ([], True, -1, 0)
    assert len({slot, alone}) == 2  # as values


def test_limits_of_memory_are_shared_out_and_one_large_request_stays_possible():
    whole = Settings(
        max_points_in_flight=4000,
        max_request_points=1500,
        max_bytes_in_flight=1 << 20,
        max_message_bytes=1 << 16,
        receive_turns=16,
    )
    half, fourth = share(whole, ProcessSlot(0, 2)), share(whole, ProcessSlot(3, 4))
    assert (half.max_points_in_flight, fourth.max_points_in_flight) == (2000, 1500)
    assert (half.max_bytes_in_flight, fourth.max_bytes_in_flight) == (1 << 19, 1 << 18)
    assert (half.receive_turns, share(whole, ProcessSlot(0, 64)).receive_turns) == (8, 1)
    assert half.max_connections == whole.max_connections
    assert share(whole, ProcessSlot()) is whole


# These hold for each process: sizes of one request, times, and what the kernel or `Compute` deals
# out. A new setting must be here or in DIVIDED, or N processes allow N times as much.
NOT_DIVIDED = """
max_message_bytes max_request_points max_request_clouds max_encode_points batch_points caller_share
max_concurrent_rpcs max_caller_rpcs max_connections max_http_connections max_streams
max_shared_memory_bytes memory_limit_mib memory_reserve_mib cpu_threads
overload_retry_ms long_work_ms engine_timeout_s drain_grace_s drain_timeout_s memory_idle_s
handshake_timeout_s idle_timeout_s send_timeout_s max_connection_age_s max_connection_age_grace_s
"""


def test_each_number_of_the_settings_is_either_divided_or_holds_for_each_process():
    numbers = [
        name
        for name, field in Settings.model_fields.items()
        if {int, float} & {field.annotation, *get_args(field.annotation)}
    ]
    assert Counter([*DIVIDED, *NOT_DIVIDED.split()]) == Counter(numbers)


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
    environment = to_environment(ProcessSlot(1, 3, tmp_path, 7), given)
    # What has changed since is not heeded.
    file.write_text("batch_points: 6\n")
    monkeypatch.setenv("FARPOINT_BATCH_POINTS", "7")
    slot, settings = from_environment(environment)
    assert slot == ProcessSlot(1, 3, tmp_path, 7, os.getpid())
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
