"""Requests and connections that are wrong by construction, with the status each must get."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from benchmarks.soak.samples import SampleCase
from farpoint.v1 import sampling_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SAMPLE, ENCODE = "Sample", "Encode"

BrokenCase = tuple[str, bytes, grpc.StatusCode]
"""Method, request and the status of its answer."""

CHANGES: Sequence[Mapping[str, Any]] = (
    {"lengths": [1, 2]},
    {"sample_counts": [10**6]},
    {"sample_counts": [0]},
    {"sample_counts": [1, 2, 3]},
    {"start_indices": [-1]},
    {"start_indices": [2**40]},
    {"method": 77},
    {"nonfinite_policy": 9},
)


def broken_cases(good: SampleCase) -> list[BrokenCase]:
    """Each one a change of a request that is right."""
    requests = []
    for change in CHANGES:
        request = pb.SampleRequest.FromString(good.request)
        for field, value in change.items():
            request.ClearField(field)
            request.MergeFrom(pb.SampleRequest(**{field: value}))
        requests.append(request)
    short, mistyped, shapeless = (pb.SampleRequest.FromString(good.request) for _ in range(3))
    short.points.data = short.points.data[:-1]
    mistyped.points.data_type = 99
    shapeless.points.shape[:] = [2**62] * 30
    requests += [short, mistyped, shapeless]
    cases: list[BrokenCase] = [(SAMPLE, r.SerializeToString(), INVALID) for r in requests]
    cases += [(SAMPLE, b"\xff" * 50, INVALID), (SAMPLE, good.request[:-1], INVALID)]
    unknown = pb.EncodeRequest(
        model="nobody", points=pb.SampleRequest.FromString(good.request).points
    )
    cases.append((ENCODE, unknown.SerializeToString(), grpc.StatusCode.NOT_FOUND))
    cases.append((ENCODE, b"\x0a\xff", INVALID))
    return cases


async def break_connection(address: str, chance: random.Random) -> None:
    """Opens a connection, sends the beginning of something, and resets it."""
    host, port = address.rsplit(":", 1)
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return  # the server is down, which another fault has seen to
    head = PREFACE if chance.random() < 0.7 else b""
    writer.write(head + chance.randbytes(chance.randrange(200)))
    await asyncio.sleep(chance.random() * 0.01)
    writer.transport.abort()
