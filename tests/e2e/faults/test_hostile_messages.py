"""Messages made to inflate: refused with the field, before anything large is made of them."""

from collections.abc import Iterator
from functools import cache

import grpc
import numpy as np
import pytest
from tests.support.messages import details, field, sample_request
from tests.support.servers.server_process import RunningServer

from farpoint.inference import open_inference_pb2 as oi
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

# Receiving a message takes three times its size: in gRPC, on the way to Python, and there.
MESSAGE_BYTES = 8 << 20
MOST_GROWN_MIB = 100
CLOUD = np.arange(6000, dtype=np.float32).reshape(2000, 3)
GOOD = sample_request(CLOUD, 2).SerializeToString()
SAMPLE, STREAM, LARGE, ENCODE = (
    f"/farpoint.v1.SamplingService/{name}"
    for name in ("Sample", "SampleStream", "SampleLarge", "Encode")
)
INFER = "/inference.GRPCInferenceService/ModelInfer"
NUMBERS = b"\1" * MESSAGE_BYTES
LONG = "x" * MESSAGE_BYTES


@cache
def attributes() -> bytes:
    """As many as fit, of distinct names and no width."""
    width = tensor_pb2.Tensor(data_type=1, shape=[2000, 0]).SerializeToString()
    head, tail = field(7, field(1, b"%06x" % 0) + field(2, width)).split(b"%06x" % 0)
    return b"".join(head + b"%06x" % i + tail for i in range(MESSAGE_BYTES // 20))


def infer(name: str = "points") -> bytes:
    made = oi.ModelInferRequest(model_name="fps")
    made.inputs.add(name=name, datatype="FP32", shape=[2000, 3])
    made.inputs.add(name="sample_count", datatype="INT64", shape=[1])
    made.raw_input_contents.extend([CLOUD.tobytes(), np.int64(2).tobytes()])
    return made.SerializeToString()


HEAD = pb.SampleRequest(
    points=tensor_pb2.Tensor(data_type=1, shape=[2000, 3]), sample_counts=[2]
).SerializeToString()
ATTACKS = {
    "attributes": (SAMPLE, GOOD + attributes(), "attributes"),
    "dimensions": (SAMPLE, GOOD + field(1, field(2, NUMBERS)), "points.shape"),
    "unknown fields": (SAMPLE, GOOD + b"\xf8\7\1" * 1_000_000, "request"),
    "stream": (STREAM, field(1, GOOD + attributes()), "attributes"),
    "upload": (LARGE, field(1, HEAD + attributes()), "attributes"),
    "encode": (ENCODE, GOOD[: -GOOD[::-1].index(b"\x1a") - 1] + field(2, NUMBERS), "lengths"),
    "inference name": (INFER, infer(name=LONG), "inputs[0].name"),
    "inference numbers": (
        INFER,
        infer() + field(5, field(5, field(3, NUMBERS))),
        "inputs.contents.int64_contents",
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(
        "--encoder", "default", "--max-message-bytes", str(4 * MESSAGE_BYTES)
    ) as server:
        yield server
    assert max(len(str(line)) for line in server.log) < 3000
    assert not [line for line in server.log if line["level"] == "error"]


def reset_peak(server: RunningServer) -> None:
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as file:
        file.write("5")


def send(channel: grpc.Channel, method: str, raw: bytes) -> None:
    """Raises what the call fails with."""
    if method == LARGE:
        channel.stream_unary(method)(iter([raw]))
    else:
        channel.unary_unary(method)(raw)


@pytest.mark.parametrize("case", [name for name in ATTACKS if name != "stream"])
def test_it_is_refused_and_nothing_large_is_allocated(case, server, channel):
    method, raw, wrong = ATTACKS[case]
    good = channel.unary_unary(SAMPLE)
    good(GOOD)
    reset_peak(server)
    before = server.resident_mib()
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, method, raw)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value.details()
    (bad_request,) = details(caught.value)
    assert bad_request.field_violations[0].field == wrong
    assert server.resident_mib("VmHWM") - before < MOST_GROWN_MIB
    assert pb.SampleResponse.FromString(good(GOOD)).lengths == [2]


def test_in_a_stream_it_is_refused_alone(channel):
    method, raw, wrong = ATTACKS["stream"]
    requests = iter([raw, field(1, GOOD)])
    answers = channel.stream_stream(method, None, pb.SampleStreamResponse.FromString)(requests)
    refused, served = answers
    assert refused.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert refused.error.message.startswith(f"{wrong}: ")
    assert served.response.lengths == [2]
