"""Messages as our clients send them, and each field of them: read in C++, or left to Python."""

import asyncio
import inspect
from collections.abc import Iterator
from concurrent import futures

import grpc
import numpy as np
import pytest
import torch
from google.protobuf.descriptor import Descriptor
from tests.support.messages import is_answered, python_response, read, sample_request, tensor

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1.packed_cloud_pb2 import PackedCloud

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
CLOUD = np.random.default_rng(0).random((200, 3), np.float32)
HOLES = np.where(np.arange(200)[:, None] % 7, CLOUD, np.nan)

# Arguments of `sample` besides the points.
COMMON = {
    "m": {"m": 64},
    "start": {"m": 64, "start": 5},
    "nonfinite": {"m": 64, "nonfinite": "ignore"},
    "radius": {"radius": 0.3},
    "radius with a maximum": {"m": 64, "radius": 0.1},
    "attributes": {"m": 64, "attributes": {"intensity": CLOUD[:, 0]}},
    "timeout": {"m": 64, "timeout": 20.0},
    "progress": {"m": 64, "progress": lambda *_: None},
    "poisson disk": {"method": farpoint.PoissonDisk(0.3)},
}
RARE = {
    "random": {"m": 64, "method": farpoint.RandomSampling(1)},
    "voxel grid": {"method": farpoint.VoxelGrid(0.3)},
}
COMMON_POINTS = {
    "float32": CLOUD,
    "float64": CLOUD.astype("f8"),
    "big-endian": CLOUD.astype(">f4"),
    "columns": np.asfortranarray(CLOUD),
    "integers": (100 * CLOUD).astype("i4"),
    "short integers": (100 * CLOUD).astype("u1"),
    "list": CLOUD.tolist(),
    "torch": torch.from_numpy(CLOUD.copy()),
    "bfloat16": torch.from_numpy(CLOUD.copy()).bfloat16(),
    "batch of one": CLOUD[None],
}
RARE_POINTS = {
    "float16": CLOUD.astype("f2"),
    "batch": np.stack([CLOUD, CLOUD]),
    "list of clouds": [CLOUD, CLOUD[:99]],
}


class SmallServer(grpc.GenericRpcHandler):
    """Sample and SampleStream, in C++ where it answers; `answered` says of each request if so."""

    def __init__(self) -> None:
        self.answered: list[bool] = []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if call.method.endswith("/SampleStream"):
            return grpc.stream_stream_rpc_method_handler(self._stream)
        if call.method.endswith("/GetServerInfo"):
            return grpc.unary_unary_rpc_method_handler(self._info)
        return grpc.unary_unary_rpc_method_handler(lambda raw, _: self._sample(raw))

    def _info(self, _: bytes, __: grpc.ServicerContext) -> bytes:
        limits = pb.Limits(message_bytes=1 << 20, request_points=5000, request_clouds=9)
        return pb.GetServerInfoResponse(limits=limits).SerializeToString()

    def _sample(self, raw: bytes, *, is_streamed: bool = False) -> bytes:
        work = read(raw, is_streamed=is_streamed)
        answer = work.inline(10**9) if work else None
        self.answered.append(answer is not None)
        if answer is not None:
            return answer
        if is_streamed:
            raw = pb.SampleStreamRequest.FromString(raw).request.SerializeToString()
        return python_response(raw)

    def _stream(self, messages: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for index, raw in enumerate(messages):
            response = pb.SampleResponse.FromString(self._sample(raw, is_streamed=True))
            yield pb.SampleStreamResponse(
                request_index=index, response=response
            ).SerializeToString()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[SmallServer, str]]:
    handler = SmallServer()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield handler, f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture
def server(running: tuple[SmallServer, str]) -> SmallServer:
    running[0].answered.clear()
    return running[0]


@pytest.fixture(scope="module")
def address(running: tuple[SmallServer, str]) -> str:
    return running[1]


def test_every_argument_of_sample_is_in_a_case():
    arguments = {*inspect.signature(farpoint.Client.sample).parameters} - {"self", "points"}
    assert {name for case in (COMMON | RARE).values() for name in case} == arguments


@pytest.mark.parametrize("checksums", [None, True, False])
@pytest.mark.parametrize("case", COMMON | RARE)
def test_options_of_clients(server, address, case, checksums):
    options = (COMMON | RARE)[case]

    async def sample_async() -> farpoint.Sample:
        async with farpoint.AsyncClient(address, checksums=checksums) as client:
            return await client.sample(CLOUD, **options)

    with farpoint.Client(address, checksums=checksums) as client:
        sample = client.sample(CLOUD, **options)
    assert np.array_equal(asyncio.run(sample_async()).indices, sample.indices)
    assert server.answered == [case in COMMON] * 2


@pytest.mark.parametrize("kind", COMMON_POINTS | RARE_POINTS)
def test_types_of_clouds(server, address, kind):
    with farpoint.Client(address) as client:
        client.sample((COMMON_POINTS | RARE_POINTS)[kind], 64)
    assert server.answered == [kind in COMMON_POINTS]


def test_clouds_with_holes(server, address):
    with farpoint.Client(address) as client:
        sample = client.sample(HOLES, 64, nonfinite="ignore")
    assert np.isfinite(sample.points).all()
    assert server.answered == [True]


@pytest.mark.parametrize("latest_only", [False, True])
@pytest.mark.parametrize("case", ["m", "start", "nonfinite", "radius", "poisson disk"])
def test_streams(server, address, case, latest_only):
    options = {**COMMON[case], "latest_only": latest_only}

    async def stream_async() -> list[farpoint.StreamedSample]:
        async with farpoint.AsyncClient(address) as client:
            return [sample async for sample in client.sample_stream([CLOUD] * 2, **options)]

    with farpoint.Client(address) as client:
        streamed = list(client.sample_stream([CLOUD, CLOUD], **options))
    assert [each.error for each in [*streamed, *asyncio.run(stream_async())]] == [None] * 4
    assert server.answered == [True] * 4


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("policy", [1, 2])
@pytest.mark.parametrize(
    "fields", [{"method": 1, "sample_counts": [64]}, {"method": 4, "covering_radius": 0.3}]
)
def test_the_page(dtype, policy, fields):
    """As `sample` of web/src/rpc/sampling.ts writes it."""
    sent = CLOUD.astype(dtype)
    points = {"data_type": {"f4": 1, "f8": 2}[dtype], "shape": sent.shape, "data": sent.tobytes()}
    request = pb.SampleRequest(
        points=points, nonfinite_policy=policy, return_distances=True, start_indices=[7], **fields
    )
    assert read(request.SerializeToString()).inline(10**9) is not None


NINE = np.random.default_rng(0).random((9, 3), np.float32)
PLAIN = sample_request(NINE, 2)

READ = {
    "points.data_type": PLAIN,
    "points.shape": PLAIN,
    "points.data": PLAIN,
    "lengths": pb.SampleRequest(lengths=[9]),
    "sample_counts": PLAIN,
    "start_indices": pb.SampleRequest(start_indices=[3]),
    "method": pb.SampleRequest(method=1),
    "nonfinite_policy": pb.SampleRequest(nonfinite_policy=1),
    "return_points": pb.SampleRequest(return_points=True),
    "return_distances": pb.SampleRequest(return_distances=True),
    "return_checksums": pb.SampleRequest(return_checksums=True),
    "covering_radius": pb.SampleRequest(covering_radius=0.2),
}
"""What clients send for one cloud."""

LEFT = {
    # Clients put clouds of at least 256 KiB there.
    "points.shared_memory": pb.SampleRequest(points={"shared_memory": {"region": b"r"}}),
    # Of answers alone.
    "points.crc32c": pb.SampleRequest(points={"crc32c": 1}),
    # Clients gather them.
    "attributes": pb.SampleRequest(attributes=[{"name": "a", "values": tensor(NINE)}]),
    # Records of sensors: a conversion for each type of field, for clouds that are seldom small.
    "packed_cloud": pb.SampleRequest(packed_cloud=PackedCloud(width=9)),
    # Kernels in Python.
    "voxel_grid": pb.SampleRequest(voxel_grid={"voxel_size": 1}),
    "seeds": pb.SampleRequest(seeds=[1]),
}
"""A message among them is left with all its fields."""


def paths(kind: Descriptor, prefix: str = "") -> Iterator[str]:
    """Every field of a message, nested ones too, but for those of a message that is left."""
    for field in kind.fields:
        path = prefix + field.name
        if field.message_type is None or path in LEFT:
            yield path
        else:
            yield from paths(field.message_type, f"{path}.")


def with_field(change: pb.SampleRequest) -> bytes:
    request = pb.SampleRequest()
    request.CopyFrom(PLAIN)
    request.MergeFrom(change if change is not PLAIN else pb.SampleRequest())
    return request.SerializeToString()


def test_every_field_is_in_exactly_one_list():
    assert sorted(paths(pb.SampleRequest.DESCRIPTOR)) == sorted([*READ, *LEFT])


@pytest.mark.parametrize("field", LEFT)
def test_a_field_that_is_left(field):
    assert not is_answered(with_field(LEFT[field]))


@pytest.mark.parametrize(
    ("field", "read_values", "left_values"),
    [("method", {0, 1, 4}, {2, 3}), ("nonfinite_policy", {0, 1, 2}, set())],
)
def test_values_of_enumerations(field, read_values, left_values):
    kind = pb.SampleRequest.DESCRIPTOR.fields_by_name[field].enum_type
    assert {value.number for value in kind.values} == read_values | left_values
    for value in read_values | left_values:
        raw = sample_request(NINE, 2, covering_radius=0.2, **{field: value}).SerializeToString()
        assert (read(raw) is not None) is (value in read_values)
