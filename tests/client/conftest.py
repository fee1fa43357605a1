"""A small server of the contract, sampling with numpy, for tests of the client alone."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field

import google_crc32c
import grpc
import numpy as np
import pytest
from tests.support.clouds import furthest_points, squared_distances

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import sampling_pb2_grpc, tensor_pb2

TYPES = {
    tensor_pb2.DATA_TYPE_FLOAT16: "<f2",
    tensor_pb2.DATA_TYPE_FLOAT32: "<f4",
    tensor_pb2.DATA_TYPE_FLOAT64: "<f8",
}

# Fields of an answer that may have checksums.
CHECKED = ("indices", "distances", "origins")


def farthest_points(cloud: np.ndarray, m: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows by the definition, and how far the points are from them at most after each."""
    rows, finite = furthest_points(cloud, m, start), cloud[np.isfinite(cloud).all(1)]
    squared = np.stack([squared_distances(finite, cloud[row]) for row in rows])
    radii = np.sqrt(np.minimum.accumulate(squared).max(1))
    return rows.astype("<i4"), radii.astype("<f4")


@dataclass
class NumpyServer(sampling_pb2_grpc.SamplingServiceServicer):
    """Samples; keeps what it received; fails, waits or answers nonsense on request."""

    failures: list[tuple[grpc.StatusCode, str, bytes]] = field(default_factory=list)
    requests: list[pb.SampleRequest] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    hold: threading.Event | None = None
    answer: pb.SampleResponse | None = None
    target: str = ""
    message_bytes: int = 64 << 20
    info_takes_s: float = 0
    fails_after_s: float = 0
    stream_ends_at: int | None = None
    time_left_s: list[float] = field(default_factory=list)

    def fail(self, code: grpc.StatusCode, message: str = "no", details: bytes = b"") -> None:
        """The next call ends like this; several are queued."""
        self.failures.append((code, message, details))

    def Sample(self, request: pb.SampleRequest, context) -> pb.SampleResponse:  # noqa: N802
        self.requests.append(request)
        self.time_left_s.append(context.time_remaining())
        self.metadata.append(dict(context.invocation_metadata()))
        if self.failures:
            code, message, details = self.failures.pop(0)
            time.sleep(self.fails_after_s)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(code, message)
        if self.hold:
            self.hold.wait(60)
        return self.answer or self.sampled(request)

    def SampleLarge(self, requests, context) -> pb.SampleLargeResponse:  # noqa: N802
        head, *pieces = requests
        self.pieces = [len(piece.points_data) for piece in pieces]
        head.request.points.data = b"".join(piece.points_data for piece in pieces)
        return pb.SampleLargeResponse(response=self.Sample(head.request, context))

    def SampleStream(self, requests, context) -> Iterator[pb.SampleStreamResponse]:  # noqa: N802
        """Answers every request, or in latest mode every second one; fails 13 points."""
        for index, message in enumerate(requests):
            if index == self.stream_ends_at:
                return
            self.requests.append(message.request)
            if self.failures:
                code, text, _ = self.failures.pop(0)
                context.abort(code, text)
            answer = pb.SampleStreamResponse(request_index=index)
            if message.mode == pb.STREAM_MODE_LATEST and index % 2 == 0:
                continue
            if message.request.points.shape[0] == 13:
                answer.error.code, answer.error.message = 8, "unlucky"
            else:
                answer.response.CopyFrom(self.sampled(message.request))
            yield answer

    def sampled(self, request: pb.SampleRequest) -> pb.SampleResponse:
        dtype = TYPES[request.points.data_type]
        points = np.frombuffer(request.points.data, dtype).reshape(request.points.shape)
        clouds = np.split(points, np.cumsum(request.lengths)[:-1])
        counts = np.broadcast_to(request.sample_counts, len(clouds))
        starts = np.broadcast_to(request.start_indices, len(clouds))
        response = pb.SampleResponse(lengths=counts.tolist())
        if dtype == "<f8":
            origins = np.array([c[np.isfinite(c).all(1).argmax()] for c in clouds])
            clouds = [cloud - origin for cloud, origin in zip(clouds, origins, strict=True)]
            response.origins.CopyFrom(tensor(tensor_pb2.DATA_TYPE_FLOAT64, origins))
        pairs = zip(clouds, counts, starts, strict=True)
        picked = [farthest_points(c.astype("<f4"), int(m), int(s)) for c, m, s in pairs]
        indices = np.concatenate([i for i, _ in picked])
        response.indices.CopyFrom(tensor(tensor_pb2.DATA_TYPE_INT32, indices))
        distances = np.concatenate([d for _, d in picked])
        response.distances.CopyFrom(tensor(tensor_pb2.DATA_TYPE_FLOAT32, distances))
        response.timings.CopyFrom(pb.Timings(queue_ms=0.25, compute_ms=0.5, server_ms=1.0))
        if request.return_checksums:
            for _, part in (p for p in response.ListFields() if p[0].name in CHECKED):
                numbers = np.array([part.data_type, *part.shape], "<i8").tobytes()
                part.crc32c = google_crc32c.value(numbers + part.data)
        return response

    def GetServerInfo(self, request, context) -> pb.GetServerInfoResponse:  # noqa: N802, ARG002
        time.sleep(self.info_takes_s)
        return pb.GetServerInfoResponse(
            version="1.2.3",
            devices=[pb.Device(name="cpu", description="A processor")],
            methods=[pb.SAMPLING_METHOD_FARTHEST_POINT, 77],
            point_types=[tensor_pb2.DATA_TYPE_FLOAT32, tensor_pb2.DATA_TYPE_BFLOAT16],
            limits=pb.Limits(
                message_bytes=self.message_bytes,
                request_points=20,
                request_clouds=30,
            ),
            torch_version="2.13.0",
        )


def tensor(data_type: tensor_pb2.DataType.ValueType, array: np.ndarray) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=data_type, shape=array.shape, data=array.tobytes())


@contextmanager
def serving(
    *servicers: tuple[Callable, object], credentials: grpc.ServerCredentials | None = None
) -> Iterator[str]:
    """Serves on a free port; its address. Each servicer has the function that adds it."""
    options = [("grpc.max_receive_message_length", -1)]
    grpc_server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
    for add, servicer in servicers:
        add(servicer, grpc_server)
    address = "127.0.0.1:0"
    if credentials is None:
        port = grpc_server.add_insecure_port(address)
    else:
        port = grpc_server.add_secure_port(address, credentials)
    grpc_server.start()
    yield f"127.0.0.1:{port}"
    grpc_server.stop(None).wait()


@pytest.fixture
def server() -> Iterator[NumpyServer]:
    servicer = NumpyServer()
    with serving((sampling_pb2_grpc.add_SamplingServiceServicer_to_server, servicer)) as target:
        servicer.target = target
        yield servicer
        if servicer.hold:
            servicer.hold.set()


@pytest.fixture
def client(server: NumpyServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.target, timeout=30, checksums=False) as opened:
        yield opened


@pytest.fixture
def cloud() -> np.ndarray:
    """500 float32 points."""
    return np.random.default_rng(7).normal(size=(500, 3)).astype(np.float32)
