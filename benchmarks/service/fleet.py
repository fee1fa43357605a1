"""Interleaved rounds over several servers: all are SIGSTOPped but the one that is measured."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.service.contenders import PROGRAMS, Peer, free_port
from benchmarks.service.environments import FOLDER, PeerError, python_of
from benchmarks.service.load import Contender, load, once
from benchmarks.service.processes import Server, running

START_SECONDS = 90
IDLE_SECONDS = 2.0

Row = dict[str, Any]
Probe = Callable[[Peer, Server], Contender]


@dataclass(frozen=True)
class Effort:
    """How often and how long each contender is measured, at how many callers and sample counts."""

    rounds: int
    seconds: float
    concurrency: tuple[int, ...] = (1, 16, 64)
    counts: tuple[int, ...] = (1024, 4096)


@dataclass
class Fleet:
    """The servers of one mode by name, and those that are left out, with the reason."""

    servers: dict[str, Server]
    peers: dict[str, Peer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    weights: dict[str, Row] = field(default_factory=dict)

    def leave_out(self, name: str, error: Exception) -> None:
        self.left_out[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
        print(f"left out: {name}: {self.left_out[name]}", flush=True)
        del self.peers[name]
        self.weights.pop(name, None)
        if server := self.servers.pop(name, None):
            server.stop()

    def weigh(self, moment: str) -> None:
        """Processes, memory and CPU time of each server while nobody calls."""
        begun = {name: server.cpu_seconds() for name, server in self.servers.items()}
        time.sleep(IDLE_SECONDS)
        for name, server in self.servers.items():
            idle = 100 * (server.cpu_seconds() - begun[name]) / IDLE_SECONDS
            row = self.weights.setdefault(name, {"server": name, "processes": len(server.tree())})
            row |= {f"idle_cpu_percent_{moment}": idle, f"memory_mb_{moment}": server.memory_mb()}


def _log(peer: Peer) -> Path:
    return FOLDER / f"{peer.name.replace(', ', '-').replace(' ', '-').lower()}.log"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _launch(peer: Peer, stack: ExitStack) -> Server:
    python = python_of(peer.environment)
    port = free_port()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    command = peer.command(python, port, Path(folder))
    variables = {"PYTHONPATH": str(PROGRAMS), **peer.variables}
    return stack.enter_context(running(command, f"127.0.0.1:{port}", variables, _log(peer)))


def _answers(contender: Contender) -> Exception | None:
    """The fault of its answer, if there is one."""
    try:
        contender.check(once(contender))
    except Exception as error:
        return error
    return None


def _await_ready(contender: Contender, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while error := _answers(contender):
        if time.monotonic() > deadline or contender.server.process.poll() is not None:
            raise PeerError(f"did not start: {_last_line(log) or error}")
        time.sleep(0.25)


@contextmanager
def _or_without(ships: Fleet, name: str) -> Iterator[None]:
    try:
        yield
    except (PeerError, OSError) as error:
        ships.leave_out(name, error)


def _start(ships: Fleet, stack: ExitStack, probe: Probe) -> None:
    """All at once, and each is out that does not install or answer its probe rightly."""
    for name, peer in list(ships.peers.items()):
        with _or_without(ships, name):
            ships.servers[name] = _launch(peer, stack)
    for name, peer in list(ships.peers.items()):
        with _or_without(ships, name):
            _await_ready(probe(peer, ships.servers[name]), _log(peer))


@contextmanager
def fleet(own: dict[str, Server], peers: Sequence[Peer], probe: Probe) -> Iterator[Fleet]:
    """Our servers and the peers that start, all stopped until each has its turn."""
    with ExitStack() as stack:
        ships = Fleet(dict(own), {peer.name: peer for peer in peers})
        _start(ships, stack, probe)
        ships.weigh("before")
        for server in ships.servers.values():
            server.pause()
        yield ships
        for server in ships.servers.values():
            server.resume()
        ships.weigh("after")


def right(contenders: Sequence[Contender], ships: Fleet) -> list[Contender]:
    """Those whose answer is right; a peer's wrong one leaves it out, ours is an error."""
    kept = []
    for contender in contenders:
        with contender.server.awake():
            error = _answers(contender)
        if error is None:
            kept.append(contender)
        else:
            _forgive(contender, ships, error)
    return kept


def rounds_of(
    contenders: Sequence[Contender], ships: Fleet, concurrency: int, effort: Effort
) -> list[Row]:
    """A row of medians each: all run in every round, and every other round runs backwards."""
    measured: dict[str, list[Row]] = defaultdict(list)
    for number in range(effort.rounds):
        for contender in contenders[:: -1 if number % 2 else 1]:
            if contender.server in ships.servers.values():
                figures = _turn(contender, ships, concurrency, effort.seconds)
                measured[contender.name] += figures
    whole = {name: each for name, each in measured.items() if len(each) == effort.rounds}
    return [
        {"server": c.name, "at": concurrency, **_medians(whole[c.name])}
        for c in contenders
        if c.name in whole
    ]


def _turn(contender: Contender, ships: Fleet, concurrency: int, seconds: float) -> list[Row]:
    try:
        with contender.server.awake():
            return [load(contender, concurrency, seconds)]
    except Exception as error:
        _forgive(contender, ships, RuntimeError(f"{concurrency} calls at a time: {error!r}"))
        return []


def _medians(rows: Sequence[Row]) -> Row:
    return {key: median(row[key] for row in rows) for key in rows[0]}


def _forgive(contender: Contender, ships: Fleet, error: Exception) -> None:
    if contender.name not in ships.peers:
        raise error
    ships.leave_out(contender.name, error)
