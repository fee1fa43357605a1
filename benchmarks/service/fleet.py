"""Interleaved rounds over several servers: all are SIGSTOPped but the one that is measured.

All servers are up at once, yet those that are not measured are stopped, since some use the CPU when
no call is under way.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.report import Row, describe, heading, shown, table, write
from benchmarks.service.contenders import PROGRAMS, Peer, free_port
from benchmarks.service.environments import FOLDER, PeerError, peer_versions, python_of
from benchmarks.service.load import Contender, load, medians, once
from benchmarks.service.processes import Server, running

START_SECONDS = 90

COLUMNS = ("points", "samples", "server", "at", "p50_ms", "p99_ms", "per_s", "cpu_ms")

Probe = Callable[[Peer, Server], Contender]


@dataclass(frozen=True)
class Effort:
    """Repeats, seconds and callers of a measurement."""

    rounds: int
    seconds: float
    concurrency: tuple[int, ...] = (1, 16, 64)


@dataclass
class Fleet:
    """The servers by name, and those that are left out, with the reason."""

    servers: dict[str, Server]
    peers: dict[str, Peer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, name: str, error: Exception) -> None:
        self.left_out[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
        print(f"left out: {name}: {self.left_out[name]}", flush=True)
        del self.peers[name]
        if server := self.servers.pop(name, None):
            server.stop()


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
        for server in ships.servers.values():
            server.pause()
        yield ships
        for server in ships.servers.values():
            server.resume()


def right(contenders: Sequence[Contender], ships: Fleet) -> list[Contender]:
    """Those whose answer is right; a peer's wrong one leaves it out, ours is an error."""
    kept = []
    for contender in contenders:
        with contender.server.awake():
            error = _answers(contender)
        if error is None:
            kept.append(contender)
        else:
            _leave_out(contender, ships, error)
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
        {"server": c.name, "at": concurrency, **medians(whole[c.name])}
        for c in contenders
        if c.name in whole
    ]


def _turn(contender: Contender, ships: Fleet, concurrency: int, seconds: float) -> list[Row]:
    try:
        with contender.server.awake():
            return [load(contender, concurrency, seconds)]
    except Exception as error:
        _leave_out(contender, ships, RuntimeError(f"{concurrency} calls at a time: {error!r}"))
        return []


def _leave_out(contender: Contender, ships: Fleet, error: Exception) -> None:
    if contender.name not in ships.peers:
        raise error
    ships.leave_out(contender.name, error)


class Report:
    """Rows as they come, and what they were measured with."""

    def __init__(self, effort: Effort) -> None:
        self.rows: list[Row] = []
        self._effort = effort
        self._begun, self._load_average = time.monotonic(), os.getloadavg()

    def measure(self, contenders: list[Contender], ships: Fleet, where: Row) -> None:
        for concurrency in self._effort.concurrency:
            rows = rounds_of(contenders, ships, concurrency, self._effort)
            self.rows += [shown(where | row) for row in rows]

    def publish(
        self, name: str, options: argparse.Namespace, peers: Sequence[Peer], ships: Fleet
    ) -> None:
        """Prints a table, and writes `name`.json unless the run was a quick one."""
        report = {
            "machine": describe("farpoint-server", "grpcio", "protobuf", "numpy", "torch"),
            "peer_versions": peer_versions(dict.fromkeys(p.environment for p in peers)),
            "load_average": self._load_average,
            "minutes": (time.monotonic() - self._begun) / 60,
            "rounds": self._effort.rounds,
            "seconds": self._effort.seconds,
            "rows": self.rows,
            "left_out": ships.left_out,
        }
        print(
            heading(report["machine"]), *(f"Left out: {k}: {v}." for k, v in ships.left_out.items())
        )
        print(table(COLUMNS, ([row.get(key, "") for key in COLUMNS] for row in self.rows)))
        if not options.quick:
            write(name, report)


def parse_options(doc: str) -> argparse.Namespace:
    """--quick and --peers; SIGTERM ends the servers too, which may be stopped then."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round of fewer cases")
    parser.add_argument("--peers", choices=("all", "none"), default="all")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return parser.parse_args()
