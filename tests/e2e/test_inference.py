"""The model `fps` over the Open Inference Protocol: with raw messages, and with a stock client."""

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2

from e2e.messages import details
from e2e.running import RunningServer
from farpoint_server.inference.v2 import open_inference_pb2 as pb
from farpoint_server.inference.v2 import open_inference_pb2_grpc

CLOUD = np.random.default_rng(5).normal(size=(2, 300, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def inference(channel):
    return open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(points, count, datatype="FP32", **fields):
    made = pb.ModelInferRequest(model_name="fps", id="the-id", **fields)
    made.inputs.add(name="points", datatype=datatype, shape=points.shape)
    made.inputs.add(name="sample_count", datatype="INT64", shape=[1])
    made.raw_input_contents.extend([points.tobytes(), np.int64(count).tobytes()])
    return made


def outputs(response):
    types = {"INT32": "<i4", "FP32": "<f4"}
    return {
        tensor.name: np.frombuffer(data, types[tensor.datatype]).reshape(tensor.shape)
        for tensor, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def test_the_server_and_the_model_say_what_they_are(inference):
    assert inference.ServerLive(pb.ServerLiveRequest()).live
    assert inference.ServerReady(pb.ServerReadyRequest()).ready
    assert inference.ServerMetadata(pb.ServerMetadataRequest()).name == "farpoint-server"
    assert inference.ModelReady(pb.ModelReadyRequest(name="fps", version="1")).ready
    assert not inference.ModelReady(pb.ModelReadyRequest(name="fps", version="2")).ready
    assert not inference.ModelReady(pb.ModelReadyRequest(name="resnet")).ready
    metadata = inference.ModelMetadata(pb.ModelMetadataRequest(name="fps"))
    assert [(t.name, t.datatype) for t in metadata.inputs] == [
        ("points", "FP32"),
        ("sample_count", "INT64"),
    ]


@pytest.mark.parametrize("points", [CLOUD, CLOUD[0]], ids=["batch", "one cloud"])
def test_the_answer_is_that_of_the_sampling_service(inference, client, points):
    response = inference.ModelInfer(request(points, 20))
    expected = client.sample(points, 20)
    answer = outputs(response)
    assert response.id == "the-id"
    for name in ("indices", "distances"):
        one_or_all = (
            [getattr(sample, name) for sample in expected]
            if points.ndim == 3
            else (getattr(expected, name))
        )
        assert np.array_equal(answer[name], np.array(one_or_all))


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP64"])
def test_other_types_of_points(inference, client, datatype):
    if datatype == "BF16":
        bits = CLOUD[0].view(np.uint32) >> 16
        raw, points = bits.astype("<u2"), (bits << 16).view(np.float32)
    else:
        raw = points = CLOUD[0].astype({"FP16": "<f2", "FP64": "<f8"}[datatype])
    answer = outputs(inference.ModelInfer(request(raw, 20, datatype)))
    assert answer["indices"].tolist() == client.sample(points, 20).indices.tolist()


def test_errors_have_the_status_and_the_details_of_the_sampling_service(inference):
    with pytest.raises(grpc.RpcError) as caught:
        inference.ModelInfer(request(CLOUD, 301))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (bad_request,) = details(caught.value)
    assert bad_request.field_violations[0].field == "inputs[sample_count][0]"
    for wrong in ({"model_name": "resnet"}, {"model_version": "7"}):
        made = request(CLOUD, 3)
        made.MergeFrom(pb.ModelInferRequest(**wrong))
        with pytest.raises(grpc.RpcError) as caught:
            inference.ModelInfer(made)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.fixture(scope="module")
def stock(server: RunningServer):
    """NVIDIA's client, in an environment that has it; it needs protobuf 6."""
    triton = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    with triton.InferenceServerClient(server.address) as client:
        yield client


def test_a_stock_client_runs_the_model(stock, client):
    triton = pytest.importorskip("tritonclient.grpc")
    assert stock.is_server_live()
    assert stock.is_server_ready()
    assert stock.is_model_ready("fps")
    assert stock.get_server_metadata().name == "farpoint-server"
    named = {tensor.name: tensor for tensor in stock.get_model_metadata("fps").inputs}
    points = triton.InferInput("points", CLOUD.shape, named["points"].datatype)
    points.set_data_from_numpy(CLOUD)
    count = triton.InferInput("sample_count", [1], named["sample_count"].datatype)
    count.set_data_from_numpy(np.array([20]))
    result = stock.infer("fps", [points, count], parameters={"start_index": 7})
    expected = client.sample(CLOUD, 20, start=7)
    for name in ("indices", "distances"):
        wanted = np.array([getattr(sample, name) for sample in expected])
        assert np.array_equal(result.as_numpy(name), wanted)


def test_a_stock_client_reads_our_errors(stock):
    triton = pytest.importorskip("tritonclient.grpc")
    points = triton.InferInput("points", [3], "FP32")
    points.set_data_from_numpy(CLOUD[0, 0])
    with pytest.raises(triton.InferenceServerException, match=r"inputs: expected the input"):
        stock.infer("fps", [points])


def test_the_contract_is_wire_compatible_with_the_stock_clients():
    service = pytest.importorskip("tritonclient.grpc.service_pb2")
    theirs, ours = (
        descriptor_pb2.FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb)
        for file in (service, pb)
    )
    known = {message.name: message for message in theirs.message_type}
    for message in ours.message_type:
        assert_subset(message, known[message.name])


def assert_subset(ours, theirs):
    fields = {field.number: field for field in theirs.field}
    for field in ours.field:
        other = fields[field.number]
        assert (field.name, field.type, field.label) == (other.name, other.type, other.label)
        assert field.type_name.rpartition(".")[2] == other.type_name.rpartition(".")[2]
    nested = {message.name: message for message in theirs.nested_type}
    for message in ours.nested_type:
        assert_subset(message, nested[message.name])
