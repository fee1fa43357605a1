"""The supervisor with stand-ins for server processes, and the link of a process to it."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from farpoint_server.config.settings import Settings
from farpoint_server.processes import child, supervisor
from farpoint_server.processes.child import Link, drain_limit_s
from farpoint_server.processes.log import LogMerger
from farpoint_server.processes.supervisor import Supervisor, private_folder

CHECK_S, MAX_FROZEN, PATIENCE_S = child.CHECK_S, child.MAX_FROZEN, child.PATIENCE_S
PROGRAM = """
import json, os, pathlib, signal, socket, sys, time
said = json.loads(os.environ["_FARPOINT_PROCESS"])
folder, index = pathlib.Path(sys.argv[1]), said["index"]
starts = folder / f"starts-{index}"
starts.open("a").write("+")
acts = (folder / f"acts-{index}").read_text().split()
act = acts[min(len(starts.read_text()), len(acts)) - 1]
if act.startswith("exit"):
    sys.exit(int(act[4:]))
link = socket.socket(fileno=said["link"])
def say(**message):
    link.send(json.dumps(message).encode() + b"\\n")
if act == "never":
    time.sleep(1000)
say(event="warm")
link.recv(1)
end = 1 if act == "unanswered" else 0
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in act else lambda *_: os._exit(end))
say(event="ready", fields={"device": "cpu", "address": f"of {index}"}, pid=os.getpid())
if act == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
beat = 0
while True:
    beat += 1
    if act != "frozen":
        say(event="alive")
    if act not in ("frozen", "stuck"):
        # A beat that is well comes after three or four that are sick.
        well = {"sick-3": beat % 4 == 0, "sick-4": beat % 5 == 0}
        say(event="beat", serving=well.get(act, "sick" not in act))
    time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Seconds become hundredths."""
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(child, "CHECK_S", 0.01)
    # A stand-in on a busy machine may be late.
    monkeypatch.setattr(child, "MAX_START", 1000)
    monkeypatch.setattr(child, "MAX_FROZEN", 100)
    monkeypatch.setattr(child, "MAX_STUCK", 150)
    monkeypatch.setattr(child, "MAX_SICK", 3)
    monkeypatch.setattr(child, "PATIENCE_S", -4.5)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A supervisor at work, with the acts of each process at its first start, its second and so on.

    A process that has no more acts repeats the last one.
    """
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", PROGRAM, str(tmp_path)])

    @asynccontextmanager
    async def starter(*acts: str):
        for index, each in enumerate(acts):
            (tmp_path / f"acts-{index}").write_text(each)
        merger = LogMerger(sys.stderr.fileno())
        settings = Settings(processes=len(acts), drain_grace_s=0, drain_timeout_s=5)
        with capture_logs() as log:
            made = Supervisor(settings, merger, tmp_path)
            starter.made = made
            running = asyncio.ensure_future(made.run())
            yield running, log
            if not running.done():
                os.kill(os.getpid(), signal.SIGTERM)
                await running
        merger.close(10)

    return starter


async def wait_for(log, event, count=1, **fields):
    """The lines of an event, once there are so many."""
    while True:
        wanted = {"event": event, **fields}
        found = [line for line in log if wanted.items() <= line.items()]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.005)


async def test_all_begin_together_and_a_signal_ends_all(run):
    async with run("serve", "serve", "serve") as (running, log):
        (ready,) = await wait_for(log, "ready")
        assert (ready["address"], ready["processes"], ready["device"]) == ("of 0", 3, "cpu")
        started = await wait_for(log, "process ready", 3)
        assert {*run.made.pids} == {line["pid"] for line in started}
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_the_exit_status_shows_that_a_process_left_calls_unanswered(run):
    async with run("serve", "unanswered") as (running, log):
        await wait_for(log, "ready")
        os.kill(os.getpid(), signal.SIGINT)
        assert await running == 1


async def test_a_process_that_is_unhealthy_for_a_moment_stays(run):
    async with run("serve", "sick-3") as (running, log):
        await wait_for(log, "ready")
        await asyncio.wait((running,), timeout=1)
        assert [line for line in log if line["log_level"] == "error"] == []


async def test_a_signal_reaches_processes_that_are_just_being_started(run):
    async with run("serve", "serve") as (running, _):
        for _ in range(3):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(running, 60) == 0


async def test_a_signal_at_the_start_ends_processes_that_wait(run, tmp_path):
    async with run("never", "never") as (running, _):
        while len([*tmp_path.glob("starts-*")]) < 2:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_a_process_that_does_not_drain_in_time_is_killed(run):
    async with run("serve", "deaf") as (running, log):
        await wait_for(log, "ready")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 1
        assert await wait_for(log, "stopped", exit_status=1, processes=2)


def test_a_drain_has_the_time_of_the_settings_and_some_patience():
    settings = Settings(drain_grace_s=20, drain_timeout_s=300)
    assert drain_limit_s(settings) == 320 + child.PATIENCE_S
    assert PATIENCE_S > 0


@pytest.mark.parametrize(
    ("act", "said", "status"),
    [
        ("frozen", "process does not answer", -signal.SIGKILL),
        ("stuck", "process does not answer", -signal.SIGKILL),
        ("sick", "process is not healthy", 0),
        ("sick-4", "process is not healthy", 0),
        ("sick-deaf", "process is not healthy", -signal.SIGKILL),
    ],
)
async def test_a_process_that_hangs_or_stays_ill_is_ended_and_replaced(
    run, monkeypatch, act, said, status
):
    """The one is killed. The other drains, since it may hold calls that it can answer."""
    for other, limit in (("frozen", "MAX_STUCK"), ("stuck", "MAX_FROZEN")):
        if act == other:
            monkeypatch.setattr(child, limit, 1 << 30)
    async with run("serve", f"{act} serve") as (running, log):
        (line,) = await wait_for(log, said, process=1)
        (ended,) = await wait_for(log, "process ended", process=1)
        assert (ended["pid"], ended["exit_status"]) == (line["pid"], status)
        _, again = await wait_for(log, "process ready", 2, process=1)
        assert again["pid"] != line["pid"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_a_process_that_ends_again_and_again_is_replaced_later_and_later(run, monkeypatch):
    pauses = []

    async def stops_within(_, seconds):
        pauses.append(seconds)
        return len(pauses) == 5

    monkeypatch.setattr(Supervisor, "_stops_within", stops_within)
    monkeypatch.setattr(supervisor, "MAX_PAUSE_S", 0.05)
    async with run("serve", "dies") as (_, log):
        await wait_for(log, "process ended", 5, process=1, served=True)
        assert pauses == [0.01, 0.02, 0.04, 0.05, 0.05]


@pytest.mark.parametrize(("status", "expected"), [(2, 2), (3, 3), (7, 1)])
async def test_one_that_cannot_start_ends_the_server_at_once(run, status, expected):
    async with run("serve", f"exit{status}") as (running, log):
        assert await running == expected
        assert (await wait_for(log, "process failed to start too often"))[0]["process"] == 1
        assert [line for line in log if line["event"] in ("ready", "process ready")] == []


async def test_a_replacement_that_cannot_start_is_tried_five_times(run):
    async with run("serve", "dies exit3") as (running, log):
        assert await running == 3
        ended = [line for line in log if line["event"] == "process ended"]
        assert [line["served"] for line in ended] == [True] + 5 * [False]
        assert len(await wait_for(log, "process failed to start too often")) == 1


@pytest.mark.parametrize(("acts", "expected"), [("never", 1), ("dies never serve", None)])
async def test_a_start_that_hangs_is_a_failed_one(run, monkeypatch, acts, expected):
    """The first ends the server, one of a replacement is tried again."""
    monkeypatch.setattr(child, "MAX_START", 100)
    async with run("serve", acts) as (running, log):
        (line,) = await wait_for(log, "process did not start in time", process=1)
        (*_, ended) = await wait_for(log, "process ended", process=1, pid=line["pid"])
        assert (ended["exit_status"], ended["served"]) == (-signal.SIGKILL, False)
        if expected is None:
            await wait_for(log, "process ready", 2, process=1)
        else:
            assert await running == expected


def test_a_frozen_process_is_noticed_within_five_seconds():
    """As constants have it, with its last heartbeat just before it froze."""
    assert (MAX_FROZEN + 1) * CHECK_S + child.BEAT_S <= 5


def test_folders_of_supervisors_that_were_killed_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, other = tmp_path / f"{supervisor.FOLDER}left", tmp_path / "farpoint-results"
    for folder in (left, other):
        folder.mkdir()
        (folder / "0").touch()
    with private_folder() as first, private_folder() as second:
        assert {*tmp_path.iterdir()} == {first, second, other}
    with private_folder() as third:
        third.rmdir()  # as cleaners of temporary folders do
    assert [*tmp_path.iterdir()] == [other]


async def test_a_system_without_room_for_a_process_is_a_failed_start(run, monkeypatch):
    async def no_room(*_, **__):
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_room)
    async with run("serve", "serve") as (running, log):
        assert await running == 1
        (line,) = await wait_for(log, "process not started", process=0)
        assert line["reason"] == "Resource temporarily unavailable"


@pytest.fixture
def link(monkeypatch):
    """A link of a process that is healthy while `serving` holds something, and its other end."""
    monkeypatch.setattr(child, "BEAT_S", 0.01)
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
