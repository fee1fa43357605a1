"""Requests of a soak, with the right answers and statuses."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import grpc
import numpy as np
import torch

from benchmarks.soak.samples import (
    NEAR,
    HttpRequest,
    SampleCase,
    SamplersDisagreeError,
    agreed_rows,
    client_rpc,
    http_requests,
    sample_case,
)
from farpoint import PackedCloud, PackedField
from farpoint._rpcs.encode import EncodeRpc
from farpoint._rpcs.sample import SampleRpc
from farpoint._rpcs.stream import UploadRpc
from farpoint.v1 import sampling_pb2 as pb
from farpoint_models.weights import default_encoder

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SAMPLE, ENCODE = "Sample", "Encode"

BrokenCase = tuple[str, bytes, grpc.StatusCode]
"""Method, request and the status of its answer."""


def broken_cases(good: SampleCase) -> list[BrokenCase]:
    """Each one a change of a request that is right."""
    short, many, shapeless = (pb.SampleRequest.FromString(good.request) for _ in range(3))
    short.points.data = short.points.data[:-1]
    many.sample_counts[:] = [10**6]
    shapeless.points.shape[:] = [2**62] * 30
    unknown = pb.EncodeRequest(
        model="unknown", points=pb.SampleRequest.FromString(good.request).points
    )
    return [
        *((SAMPLE, r.SerializeToString(), INVALID) for r in (short, many, shapeless)),
        (SAMPLE, b"\xff" * 50, INVALID),
        (SAMPLE, good.request[:-1], INVALID),
        (ENCODE, unknown.SerializeToString(), grpc.StatusCode.NOT_FOUND),
        (ENCODE, b"\x0a\xff", INVALID),
    ]


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


SMALL_CASES, PLAIN_CASES = 48, 8
LARGE_POINTS = (20_000, 60_000, 120_000)
LARGE_SAMPLES = 128
ENCODE_POINTS = (200, 700, 1200)
UPLOAD_POINTS = 90_000
UPLOAD_BYTES = 1 << 18
MAP_ORIGIN = np.array([500_000.0, 4_500_000.0, 120.0])


@dataclass(frozen=True)
class EncodeCase:
    """An Encode request of one cloud and the stages of the model in this process."""

    request: bytes
    indices: tuple[bytes, ...]
    counts: tuple[bytes, ...]
    features: tuple[np.ndarray, ...]

    def is_right(self, answer: pb.EncodeResponse) -> bool:
        """Indices and counts bit for bit; features as near as sums in another order are."""
        stages = answer.stages
        return (
            tuple(stage.indices.data for stage in stages) == self.indices
            and tuple(stage.counts.data for stage in stages) == self.counts
            and all(
                np.allclose(np.frombuffer(stage.features.data, "<f4"), wanted, 1e-3, NEAR)
                for stage, wanted in zip(stages, self.features, strict=True)
            )
        )


@dataclass(frozen=True)
class Cases:
    """Valid requests of each kind."""

    small: Sequence[SampleCase]
    large: Sequence[SampleCase]
    uploads: Sequence[tuple[tuple[bytes, ...], SampleCase]]
    """The messages of a SampleLarge."""
    encode: Sequence[EncodeCase]
    packed: Sequence[SampleCase] = ()
    http: Sequence[HttpRequest] = ()


def make_cases(seed: int) -> Cases:
    """The same for the same seed.

    Raises:
        SamplersDisagreeError: see there.
    """
    random = np.random.default_rng(seed)
    large = [
        sample_case([_surface(random, n)], LARGE_SAMPLES, [int(random.integers(n))])
        for n in LARGE_POINTS
    ]
    upload = [_surface(random, UPLOAD_POINTS)], LARGE_SAMPLES, [0]
    plain = [_plain_case(random) for _ in range(PLAIN_CASES)]
    return Cases(
        small=[_small_case(random, i) for i in range(SMALL_CASES)],
        large=large,
        uploads=[(upload_messages(client_rpc(*upload)), sample_case(*upload))],
        encode=[_encode_case(random.random((n, 3), np.float32)) for n in ENCODE_POINTS],
        packed=[packed_case(case) for case in plain],
        http=[request for case in plain for request in http_requests(case).values()],
    )


def _surface(random: np.random.Generator, n: int) -> np.ndarray:
    """Points near a ball's surface, as a scan has them."""
    points = random.normal(size=(n, 3))
    points *= (10 + random.normal(scale=0.05, size=(n, 1))) / np.linalg.norm(
        points, axis=1, keepdims=True
    )
    return points.astype(np.float32)


def _small_case(random: np.random.Generator, i: int) -> SampleCase:
    """Of one to four clouds; each third of another type, each fifth with NaN rows or ties."""
    sizes = random.integers(1, 1500, size=1 + i % 4)
    clouds = [_surface(random, n) for n in sizes]
    if i % 3 == 1:
        clouds = [cloud + MAP_ORIGIN for cloud in clouds]  # float64
    elif i % 3 == 2:
        clouds = [cloud.astype(np.float16) for cloud in clouds]
    if i % 5 == 3:
        clouds = [np.concatenate([cloud, np.full((3, 3), np.nan, cloud.dtype)]) for cloud in clouds]
    elif i % 5 == 4:
        clouds = [np.repeat(cloud, 2, axis=0) for cloud in clouds]
    m = min(int(random.integers(1, 64)), int(sizes.min()))
    starts = [int(random.integers(n)) for n in sizes]
    return sample_case(clouds, m, starts, extras=i % 2 == 0)


def _plain_case(random: np.random.Generator) -> SampleCase:
    """Of one float32 cloud."""
    n = int(random.integers(30, 400))
    return sample_case(
        [_surface(random, n)], int(random.integers(1, 30)), [int(random.integers(n))]
    )


def packed_case(case: SampleCase) -> SampleCase:
    """The same cloud with an intensity behind the coordinates of each point."""
    request = pb.SampleRequest.FromString(case.request)
    points = np.frombuffer(request.points.data, "<f4").reshape(-1, 3)
    rows = np.concatenate([points, np.ones((len(points), 1), "<f4")], axis=1)
    names = ("x", "y", "z", "intensity")
    fields = [PackedField(name, 4 * i, np.float32) for i, name in enumerate(names)]
    cloud = PackedCloud(fields, rows.tobytes(), point_step=16, width=len(points))
    arguments = cloud, request.sample_counts[0], None, request.start_indices[0]
    packed = SampleRpc(*arguments, checksums=True).request
    return replace(case, request=packed.SerializeToString())


def upload_messages(rpc: SampleRpc) -> tuple[bytes, ...]:
    """The messages of a SampleLarge to a server that accepts twice UPLOAD_BYTES in one."""
    messages = UploadRpc(rpc, 2 * UPLOAD_BYTES).request
    return tuple(message.SerializeToString() for message in messages)


def _encode_case(cloud: np.ndarray) -> EncodeCase:
    with torch.inference_mode():
        stages = default_encoder()(torch.from_numpy(cloud)[None])
    indices = [stage.indices[0].numpy() for stage in stages]
    for own in indices:
        if not np.array_equal(own, agreed_rows(cloud, len(own), 0)):
            raise SamplersDisagreeError(f"the encoder's stage of {len(own)}")
    return EncodeCase(
        request=EncodeRpc(cloud, None, None, checksums=True).request.SerializeToString(),
        indices=tuple(own.tobytes() for own in indices),
        counts=tuple(stage.counts[0].numpy().tobytes() for stage in stages),
        features=tuple(stage.features[0].mT.numpy().ravel() for stage in stages),
    )
