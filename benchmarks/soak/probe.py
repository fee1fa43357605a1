"""A caller of small calls in a process of its own, which does not wait for its fellows."""

import itertools
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import grpc

from benchmarks.soak.callers import OPTIONS, PATIENCE_S, SERVICE
from benchmarks.soak.samples import SampleCase
from benchmarks.soak.server import SoakServer
from benchmarks.soak.tally import Tally
from farpoint.v1 import sampling_pb2 as pb

PAUSE_S = 0.02
SPAWN = multiprocessing.get_context("spawn")
ALLOWED = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: "refused",
    grpc.StatusCode.UNAVAILABLE: "interrupted",
}


@contextmanager
def probing(server: SoakServer, cases: Sequence[SampleCase], tally: Tally) -> Iterator[None]:
    """Notes the times of calls that no fault interrupts."""
    theirs, ours = SPAWN.Pipe()
    process = SPAWN.Process(target=_call, args=(server.address, cases, theirs), daemon=True)
    process.start()
    theirs.close()
    reader = threading.Thread(target=_note, args=(ours, server, tally), daemon=True)
    reader.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()
        reader.join()


def _note(times: Connection, server: SoakServer, tally: Tally) -> None:
    try:
        while True:
            begun, took_s, outcome = times.recv()
            tally.end("probe", outcome)
            if outcome == "answered" and not server.interrupts(begun):
                tally.probe_ms.append(1e3 * took_s)
    except EOFError:
        return


def _call(address: str, cases: Sequence[SampleCase], times: Connection) -> None:
    with grpc.insecure_channel(address, OPTIONS) as channel:
        sample = channel.unary_unary(SERVICE + "Sample")
        for case in itertools.cycle(cases):
            begun, outcome = time.monotonic(), "wrong"
            try:
                answer = sample(case.request, timeout=PATIENCE_S)
                took_s = time.monotonic() - begun
                if case.is_right(pb.SampleResponse.FromString(answer)):
                    outcome = "answered"
            except grpc.RpcError as error:
                took_s = time.monotonic() - begun
                outcome = ALLOWED.get(error.code(), "wrong")
            times.send((begun, took_s, outcome))
            time.sleep(PAUSE_S)
