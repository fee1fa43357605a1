"""The supervisor with stand-ins for server processes, and the link of a process to it."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from farpoint_server.config.settings import Settings
from farpoint_server.processes.child import Child, Limits, Link, on_end_signals
from farpoint_server.processes.ports import Ports
from farpoint_server.processes.slot import ProcessSlot
from farpoint_server.processes.supervisor import Supervisor, pause_after

PROGRAM = """
import json, os, pathlib, select, signal, socket, sys, time
passed = json.loads(os.environ["_FARPOINT_PROCESS"])
index, link = passed["slot"]["index"], passed["slot"]["link"]
folder = pathlib.Path(sys.argv[1])
starts = folder / f"starts-{index}"
starts.open("a").write("+")
acts = (folder / f"acts-{index}").read_text().split()
act = acts[min(len(starts.read_text()), len(acts)) - 1]
if act.startswith("exit"):
    sys.exit(int(act[4:]))
link = socket.socket(fileno=link)
def send(**message):
    link.send(json.dumps(message).encode() + b"\\n")
if act == "never":
    time.sleep(1000)
if act == "last":  # longer than a process may be silent
    time.sleep(2)
send(event="warm")
while not select.select([link], [], [], 0.05)[0]:
    send(event="alive")
    send(event="beat", serving=False)
end = 1 if act == "unanswered" else 0
def leave(*_):
    if act == "slow":
        time.sleep(0.2)
    (folder / f"end-{index}").touch()
    os._exit(end)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in act else leave)
first = passed["settings"]["listen"][:1]
fields = {"device": "cpu", "address": f"of {index}", "addresses": first, "admin_addresses": ["a"]}
send(event="ready", fields=fields, pid=os.getpid())
if act == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
while act != "frozen":
    send(event="alive")
    send(event="beat", serving="sick" not in act)
    time.sleep(0.05)
time.sleep(1000)
"""


# Seconds become hundredths. A stand-in on a busy machine may be late.
HASTY = Limits(0.01, start=1000, frozen=100, stuck=150, unhealthy=3, pause_s=0.01)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A supervisor at work, with the acts of each process at its first start, its second and so on.

    `acts` are those of front ends. A process that has no more acts repeats the last one.
    """
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", PROGRAM, str(tmp_path)])
    monkeypatch.setattr("farpoint_server.processes.child.PATIENCE_S", 0)

    @asynccontextmanager
    async def starter(*acts: str, engine: str = "serve", limits: Limits = HASTY):
        for index, each in enumerate((*acts, engine)):
            (tmp_path / f"acts-{index}").write_text(each)
        ports = Ports(
            Settings(
                listen=[f"127.0.0.{index}:0" for index in range(1, len(acts) + 1)],
                processes=len(acts),
                drain_grace_s=0,
                drain_timeout_s=0.5,
            )
        )
        with capture_logs() as log:
            running = asyncio.ensure_future(Supervisor(ports, tmp_path, limits).run())
            yield running, log
            if not running.done():
                os.kill(os.getpid(), signal.SIGTERM)
                await running
        ports.close()

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
    """The last one takes longer than a process may be silent; those that wait are not healthy."""
    async with run("serve", "serve", "last") as (running, log):
        (ready,) = await wait_for(log, "ready")
        assert (ready["address"], ready["processes"], ready["device"]) == ("of 0", 3, "cpu")
        hosts = [address.rpartition(":")[0] for address in ready["addresses"]]
        assert (hosts, ready["admin_addresses"]) == (["127.0.0.1", "127.0.0.2", "127.0.0.3"], ["a"])
        pids = [line["pid"] for line in await wait_for(log, "process ready", 4)]
        assert [os.getsid(pid) for pid in pids] == pids  # Ctrl-C in a terminal reaches none
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_the_exit_status_shows_that_a_process_left_calls_unanswered(run):
    async with run("serve", "unanswered") as (running, log):
        await wait_for(log, "ready")
        os.kill(os.getpid(), signal.SIGINT)
        assert await running == 1


async def test_a_signal_reaches_processes_that_are_just_being_started(run):
    async with run("serve", "serve") as (running, _):
        for _ in range(3):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(running, 60) == 0


async def test_a_signal_at_the_start_ends_processes_that_wait(run, tmp_path):
    async with run("never", "never", engine="never") as (running, _):
        while len([*tmp_path.glob("starts-*")]) < 3:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


@pytest.mark.parametrize(
    ("hangup", "expected"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, signal.SIGTERM)]
)
async def test_a_hangup_is_a_signal_unless_nohup_has_it_ignored(hangup, expected):
    former, got = signal.signal(signal.SIGHUP, hangup), asyncio.Queue()
    on_end_signals(got.put_nowait)
    for number in (signal.SIGHUP, signal.SIGTERM):
        os.kill(os.getpid(), number)
    assert await got.get() == expected
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    signal.signal(signal.SIGHUP, former)


async def test_a_signal_ends_the_wait_before_a_replacement(run):
    async with run("dies", "dies", limits=HASTY._replace(pause_s=1000)) as (running, log):
        await wait_for(log, "process ended", 2)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait_for(log, "process ended", 3), 1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_a_process_that_does_not_drain_in_time_is_killed(run):
    async with run("serve", "deaf") as (running, log):
        await wait_for(log, "ready")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 1
        assert await wait_for(log, "stopped", exit_status=1, processes=2)


@pytest.mark.parametrize(
    ("act", "fault", "status"),
    [
        ("frozen", "process does not answer", -signal.SIGKILL),
        ("sick", "process is not healthy", 0),
        ("sick-deaf", "process is not healthy", -signal.SIGKILL),
    ],
)
async def test_a_process_that_hangs_or_stays_unhealthy_is_ended_and_replaced(
    run, act, fault, status
):
    """A process that hangs is killed. An unhealthy one drains: it may hold calls it can answer."""
    async with run("serve", f"{act} serve") as (running, log):
        (line,) = await wait_for(log, fault, process=1)
        (ended,) = await wait_for(log, "process ended", process=1)
        assert (ended["pid"], ended["exit_status"]) == (line["pid"], status)
        _, again = await wait_for(log, "process ready", 2, process=1)
        assert again["pid"] != line["pid"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_an_engine_ends_after_the_front_ends(run, tmp_path):
    """They drain, and their calls need it."""
    async with run("slow", "serve", engine="serve") as (running, log):
        await wait_for(log, "ready")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
    ends = [(tmp_path / f"end-{index}").stat().st_mtime_ns for index in range(3)]
    assert max(ends) == ends[-1]


@pytest.mark.parametrize("status", [2, 3])
async def test_an_engine_that_cannot_start_ends_the_server_with_its_status(run, status):
    async with run("never", "never", engine=f"exit{status}") as (running, _):
        assert await running == status


@pytest.mark.parametrize(
    ("lived_s", "before_s", "pause_s"),
    [(1, 0, 0.5), (1, 0.5, 1), (60, 8, 16), (1, 16, 30), (1, 30, 30), (61, 30, 0)],
)
def test_a_process_is_replaced_at_once_or_if_it_did_not_live_later_and_later(
    lived_s, before_s, pause_s
):
    assert pause_after(lived_s, before_s, Limits().pause_s) == pause_s


async def test_a_process_that_ends_again_and_again_is_replaced_each_time(run):
    async with run("serve", "dies") as (_, log):
        ends = await wait_for(log, "process ended", 6, process=1, served=True)
        assert len({line["pid"] for line in ends}) == len(ends)


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


async def test_a_start_that_hangs_is_a_failed_one(run):
    async with run("dies never serve", limits=HASTY._replace(start=200)) as (_, log):
        (line,) = await wait_for(log, "process did not start in time", process=0)
        (*_, ended) = await wait_for(log, "process ended", process=0, pid=line["pid"])
        assert (ended["exit_status"], ended["served"]) == (-signal.SIGKILL, False)
        await wait_for(log, "process ready", 2, process=0)


ALIVE, WARM = {"event": "alive"}, {"event": "warm"}
READY = {"event": "ready", "fields": {}, "pid": 1}
HEALTHY, SICK = ({"event": "beat", "serving": serving} for serving in (True, False))


@pytest.mark.parametrize(
    ("before", "each", "allowed", "fault"),
    [
        ([], [ALIVE, SICK], 300, "process did not start in time"),
        ([WARM, READY], [], 3, "process does not answer"),
        ([WARM, READY, HEALTHY], [ALIVE], 60, "process does not answer"),
        ([WARM, READY], [ALIVE, SICK], 30, "process is not healthy"),
        ([WARM], [ALIVE, SICK], 1000, None),  # it waits for the others
        ([WARM, READY], [ALIVE, HEALTHY], 1000, None),
    ],
)
def test_each_fault_is_noticed_after_the_checks_that_the_documentation_states(
    before, each, allowed, fault
):
    child = Child(ProcessSlot(0, 2), Limits())
    for message in before:
        child.receive(message)

    def check():
        for message in each:
            child.receive(message)
        return child.check()

    assert {check() for _ in range(allowed)} == {None}
    assert check() == fault


def test_one_sign_of_life_or_health_begins_all_counts_anew():
    child = Child(ProcessSlot(0, 2), Limits(frozen=2, stuck=2, unhealthy=2))
    child.receive(WARM)
    child.receive(READY)
    for _ in range(3):
        assert child.check() is child.check() is None
        for message in (HEALTHY, SICK, SICK):
            child.receive(message)
    assert [child.check() for _ in range(3)] == [None, None, "process does not answer"]


async def test_a_system_without_room_for_a_process_is_a_failed_start(run, monkeypatch):
    async def no_room(*_, **__):
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_room)
    async with run("serve", "serve") as (running, log):
        assert await running == 1
        (line,) = await wait_for(log, "process not started", process=0)
        assert line["reason"] == "Resource temporarily unavailable"
        assert await wait_for(log, "process ended", process=0, exit_status=1)


async def test_a_bug_ends_every_process_and_is_raised(run, monkeypatch):
    start, calls, started = asyncio.create_subprocess_exec, [], []

    async def start_one(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 1:
            while not started:
                await asyncio.sleep(0.01)
            raise KeyError("bug")
        started.append(await start(*arguments, **options))
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_one)
    async with run("serve", "serve") as (running, _):
        with pytest.raises(KeyError, match="bug"):
            await running
        assert await asyncio.wait_for(started[0].wait(), 30) == -signal.SIGTERM


@pytest.fixture
def link():
    """A link of a process that is healthy while `serving` holds something, and its other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    serving = [True]
    yield Link(theirs, lambda: bool(serving), beat_s=0.01), ours, serving
    ours.close()
    theirs.close()


async def test_beats_show_that_the_process_lives_that_its_loop_runs_and_its_health(link):
    process, ours, serving = link
    reader, writer = await asyncio.open_connection(sock=ours)
    process.start()
    alive, healthy, sick = (
        {"event": "alive"},
        *({"event": "beat", "serving": serving} for serving in (True, False)),
    )
    seen = []
    while not (alive in seen and sick in seen):
        seen.append(json.loads(await asyncio.wait_for(reader.readline(), 60)))
        if healthy in seen:
            serving.clear()
    assert seen.index(healthy) < seen.index(sick)
    writer.close()


def test_a_supervisor_that_does_not_read_or_is_gone_blocks_nothing(link):
    process, ours, _ = link
    for _ in range(100):
        process.ready({"text": "x" * 10_000})
    ours.close()
    process.ready({})
