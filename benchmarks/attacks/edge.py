"""Peers that burst, reset, trickle, do not read or stay silent, beside honest callers on loopback.

    python -m benchmarks.attacks edge [burst] [resets] [unread] [trickle] [watches] [silence]

Each attack has a server of its own with the defaults, but for the flags in ATTACKS, and prints what
became of the honest calls and how far the server's memory grew. `--server` names the sources of
another version to compare with.
"""

import argparse
import asyncio
import os
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.messages import sample_request, tensor
from tests.support.servers.raw_http2 import HEADERS, RawPeer
from tests.support.servers.server_process import RunningServer

from farpoint.v1 import sampling_pb2, sampling_pb2_grpc, tensor_pb2

SAMPLE = "/farpoint.v1.SamplingService/Sample"
RANDOM = np.random.default_rng(5)
SMALL = sample_request(RANDOM.normal(size=(300, 3)).astype(np.float32), 5)
TOKEN = "0123456789abcdef0123456789abcdef"
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
HONEST = 60
TIMEOUT_S = 20
# What a server gives 8 MiB by default, and the time between two looks at it.
UNREAD_S = 75
MIB = 1 << 20


def burst(server: RunningServer) -> Counter[str]:
    """12 000 calls, 4 000 at once over 4 connections; all of them are honest."""
    return asyncio.run(_burst(server.address, calls=12_000, at_once=4_000, connections=4))


async def _burst(address: str, calls: int, at_once: int, connections: int) -> Counter[str]:
    channels = [grpc.aio.insecure_channel(address, options=OWN) for _ in range(connections)]
    sends = [channel.unary_unary(SAMPLE) for channel in channels]
    raw, seen = SMALL.SerializeToString(), Counter[str]()

    async def one(i: int) -> None:
        call = sends[i % connections](raw, timeout=120)
        seen[(await call.code()).name] += 1

    for _ in range(calls // at_once):
        await asyncio.gather(*(one(i) for i in range(at_once)))
    for channel in channels:
        await channel.close()
    return seen


def resets(server: RunningServer) -> Counter[str]:
    """Four peers begin calls and reset them, as fast as they can."""
    stop = threading.Event()

    def reset(peer: RawPeer) -> None:
        with suppress(OSError):  # the server has closed the connection
            while not stop.is_set():
                peer.reset(peer.begin(SAMPLE))

    with _peers(server.address, 4) as peers:
        threads = [threading.Thread(target=reset, args=(peer,)) for peer in peers]
        for thread in threads:
            thread.start()
        time.sleep(1)
        seen = _ask(server)
        stop.set()
        for thread in threads:
            thread.join()
    return seen


def unread(server: RunningServer) -> Counter[str]:
    """120 peers with a closed window have 8 MiB made each, at 64 MiB in flight."""
    values = tensor(np.zeros((64, 32_768), np.float32))
    wide = sampling_pb2.SampleRequest(
        points=tensor(RANDOM.normal(size=(64, 3)).astype(np.float32)),
        sample_counts=[64],
        attributes=[tensor_pb2.Attribute(name="wide", values=values)],
    )
    raw = wide.SerializeToString()
    with _peers(server.address, 120) as peers:
        for peer in peers:
            stream = peer.begin(SAMPLE)
            peer.send(stream, raw)
            next(
                kind for kind, _, number, _ in peer.frames() if (kind, number) == (HEADERS, stream)
            )
        time.sleep(UNREAD_S)
        return _ask(server)


def trickle(server: RunningServer) -> Counter[str]:
    """Two uploads that announce all points that may be in flight, and send 1 200 bytes."""
    leave = threading.Event()

    def upload() -> Iterator[sampling_pb2.SampleLargeRequest]:
        head = sampling_pb2.SampleRequest(sample_counts=[5])
        head.points.CopyFrom(SMALL.points)
        head.points.shape[0] = 1 << 24
        head.points.ClearField("data")
        yield sampling_pb2.SampleLargeRequest(request=head)
        yield sampling_pb2.SampleLargeRequest(points_data=bytes(1200))
        leave.wait(120)

    with server.connected() as stub:
        slow = [stub.SampleLarge.future(upload()) for _ in range(2)]
        time.sleep(1)
        seen = _ask(server)
        leave.set()
        for call in slow:
            call.cancel()
    return seen


def watches(server: RunningServer) -> Counter[str]:
    """3 600 health watches without a token over 12 connections, beside a caller with one."""
    calls: list[grpc.Call] = []  # which end when nobody keeps them
    with ExitStack() as stack:
        for _ in range(12):
            channel = stack.enter_context(grpc.insecure_channel(server.address, options=OWN))
            stub = health_pb2_grpc.HealthStub(channel)
            calls += [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(300)]
            for call in calls:
                call.initial_metadata()  # returns when the call is open, or refused
        return _ask(server, ("authorization", f"Bearer {TOKEN}"))


def silence(server: RunningServer) -> Counter[str]:
    """1 100 connections that say nothing."""
    host, _, port = server.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(socket.create_connection((host, int(port))))
        return _ask(server)


def _ask(server: RunningServer, *metadata: tuple[str, str]) -> Counter[str]:
    """The statuses of honest calls, one after the other, on a connection of their own."""
    seen = Counter[str]()
    with grpc.insecure_channel(server.address, options=OWN) as channel:
        stub = sampling_pb2_grpc.SamplingServiceStub(channel)
        while seen.total() < HONEST and not seen["DEADLINE_EXCEEDED"]:
            call = stub.Sample.future(SMALL, TIMEOUT_S, metadata, wait_for_ready=True)
            seen[call.code().name] += 1
    return seen


@contextmanager
def _peers(address: str, count: int) -> Iterator[list[RawPeer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(RawPeer(address))) for _ in range(count)]


ATTACKS: dict[str, tuple[Callable[[RunningServer], Counter[str]], Sequence[str]]] = {
    "burst": (burst, ()),
    "resets": (resets, ()),
    "unread": (
        unread,
        ("--max-bytes-in-flight", str(64 * MIB), "--max-message-bytes", str(16 * MIB)),
    ),
    "trickle": (trickle, ()),
    "watches": (watches, ("--tokens-file", "TOKENS")),
    "silence": (silence, ()),
}


def run(attacks: Sequence[str] = tuple(ATTACKS)) -> str:
    """Runs attacks one after the other; a table in Markdown."""
    lines = ["| attack | honest calls | s | memory before, at most (MiB) |", "|---|---|---|---|"]
    with tempfile.NamedTemporaryFile("w") as tokens:
        tokens.write(f"camera sample {TOKEN}\n")
        tokens.flush()
        for name in attacks:
            attack, flags = ATTACKS[name]
            server = RunningServer(*(flag.replace("TOKENS", tokens.name) for flag in flags))
            before, began = _status_mib(server, "VmRSS"), time.monotonic()
            seen = ", ".join(f"{count} {code}" for code, count in attack(server).most_common())
            seconds, most = time.monotonic() - began, _status_mib(server, "VmHWM")
            server.process.kill()
            lines.append(f"| {name} | {seen} | {seconds:.1f} | {before:.0f}, {most:.0f} |")
    return "\n".join(lines)


def _status_mib(server: RunningServer, field: str) -> float:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def main(options: Sequence[str]) -> None:
    """The scenario `edge` of the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.attacks edge")
    parser.add_argument("attacks", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--server", type=Path, help="folder of another version's farpoint_server")
    chosen = parser.parse_args(options)
    if chosen.server is not None:
        former = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{chosen.server}{os.pathsep}{former}"
    print(run(chosen.attacks))
