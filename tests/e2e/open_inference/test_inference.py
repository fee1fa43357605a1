"""`fps` and the encoders over the Open Inference Protocol: raw messages, and a stock client."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import torch
from tests.support.messages import details
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint.inference import open_inference_pb2 as pb
from farpoint.inference import open_inference_pb2_grpc
from farpoint_models import DensityEncoder, EncoderConfig, save_encoder

RANDOM = np.random.default_rng(5)
CLOUD = RANDOM.normal(size=(2, 300, 3)).astype(np.float32)
COLORS = RANDOM.random((2, 300, 3), np.float32)
STAGE = {"indices": "INT32", "points": "FP32", "features": "FP32", "counts": "INT32"}
STAGE["mean_distances"] = "FP32"


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
    types = {"INT32": "<i4", "FP32": "<f4", "FP64": "<f8", "FP16": "<f2", "BF16": "<u2"}
    return {
        tensor.name: np.frombuffer(data, types[tensor.datatype]).reshape(tensor.shape)
        for tensor, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }


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
def colored_server(tmp_path_factory) -> Iterator[RunningServer]:
    """With an encoder of two stages that takes colors."""
    path: Path = tmp_path_factory.mktemp("encoders") / "colored.safetensors"
    torch.manual_seed(1)
    config = EncoderConfig(
        rates=(0.25, 0.5), channels=8, hidden=8, neighbors=8, groups=2, attributes=3
    )
    save_encoder(DensityEncoder(config), path)
    with RunningServer("--encoder", f"colored={path}") as server:
        yield server


@pytest.fixture(scope="module")
def colored(colored_server):
    with grpc.insecure_channel(colored_server.address) as channel:
        yield open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def encode_request(points, colors):
    made = pb.ModelInferRequest(model_name="colored", id="the-id")
    for name, array in (("points", points), ("attributes", colors)):
        made.inputs.add(name=name, datatype="FP32", shape=array.shape)
        made.raw_input_contents.append(array.tobytes())
    return made


@pytest.mark.parametrize("one", [False, True], ids=["batch", "one cloud"])
def test_the_stages_are_those_of_encode(colored, colored_server, one):
    points, colors = (CLOUD[0], COLORS[0]) if one else (CLOUD, COLORS)
    response = colored.ModelInfer(encode_request(points, colors))
    assert (response.model_name, response.id) == ("colored", "the-id")
    answer = outputs(response)
    assert list(answer) == [f"{kind}_{i}" for i in (0, 1) for kind in STAGE]
    with farpoint.Client(colored_server.address) as client:
        encodings = client.encode(
            points, model="colored", attributes=list(colors) if not one else colors
        )
    for i in (0, 1):
        for kind in STAGE:
            each = [getattr(e.stages[i], kind) for e in ([encodings] if one else encodings)]
            expected = each[0] if one else np.array(each)
            np.testing.assert_array_equal(answer[f"{kind}_{i}"], expected)
