"""The link of a process to its supervisor, seen from the supervisor's end."""

import asyncio
import json
import os
import socket

import pytest

from farpoint_server.processes import child as module
from farpoint_server.processes.child import Link


@pytest.fixture
def link(monkeypatch):
    """A link of a process that is healthy while `serving` holds something, and its other end."""
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    serving = [True]
    link = Link(theirs.detach(), lambda: bool(serving))
    yield link, ours, serving
    ours.close()
    link._socket.close()  # which a process leaves to its end


async def test_beats_say_that_the_process_lives_that_its_loop_runs_and_how_it_is(link):
    process, ours, serving = link
    reader, writer = await asyncio.open_connection(sock=ours)
    process.start()
    seen = []
    while len(seen) < 8 or serving:
        seen.append(json.loads(await asyncio.wait_for(reader.readline(), 60)))
        if {"event": "beat", "serving": True} in seen:
            serving.clear()
    while seen[-1] != {"event": "beat", "serving": False}:
        seen.append(json.loads(await asyncio.wait_for(reader.readline(), 60)))
    assert {"event": "alive"} in seen
    writer.close()


async def test_a_warm_process_begins_with_a_byte_and_then_says_what_it_is(link):
    process, ours, _ = link
    waiting = asyncio.ensure_future(process.warm())
    await asyncio.wait((waiting,), timeout=0.05)
    assert not waiting.done()
    assert ours.recv(100) == b'{"event": "warm"}\n'
    ours.send(b"\n")
    await asyncio.wait_for(waiting, 60)
    process.ready({"device": "cpu"})
    assert json.loads(ours.recv(100)) == {
        **{"event": "ready", "fields": {"device": "cpu"}, "pid": os.getpid()}
    }


def test_a_supervisor_that_does_not_read_or_is_gone_holds_up_nothing(link):
    process, ours, _ = link
    for _ in range(100):
        process.ready({"text": "x" * 10_000})
    ours.close()
    process.ready({})
