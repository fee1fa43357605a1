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
SHIPPED = "density_small"
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
    """With the shipped encoder and one of two stages that takes colors."""
    path: Path = tmp_path_factory.mktemp("encoders") / "colored.safetensors"
    torch.manual_seed(1)
    config = EncoderConfig(
        rates=(0.25, 0.5), channels=8, hidden=8, neighbors=8, groups=2, attributes=3
    )
    save_encoder(DensityEncoder(config), path)
    flags = ["--encoder", "default", "--encoder", f"colored={path}"]
    with RunningServer(
        *flags, "--max-encode-points", "1000", "--admin-listen", "127.0.0.1:0"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def colored(colored_server):
    with grpc.insecure_channel(colored_server.address) as channel:
        yield open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def encode_request(points, colors=None, model="colored", datatype="FP32", **fields):
    made = pb.ModelInferRequest(model_name=model, id="the-id", **fields)
    made.inputs.add(name="points", datatype=datatype, shape=points.shape)
    made.raw_input_contents.append(points.tobytes())
    if colors is not None:
        made.inputs.add(name="attributes", datatype="FP32", shape=colors.shape)
        made.raw_input_contents.append(colors.tobytes())
    return made


def test_every_encoder_says_what_it_takes_and_gives(colored):
    for name in ("fps", SHIPPED, "colored"):
        assert colored.ModelReady(pb.ModelReadyRequest(name=name)).ready
    metadata = colored.ModelMetadata(pb.ModelMetadataRequest(name="colored", version="1"))
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("points", "FP32", [-1, 3]),
        ("attributes", "FP32", [-1, 3]),
    ]
    expected = [(f"{kind}_{i}", type_) for i in (0, 1) for kind, type_ in STAGE.items()]
    assert [(t.name, t.datatype) for t in metadata.outputs] == expected
    plain = colored.ModelMetadata(pb.ModelMetadataRequest(name=SHIPPED))
    assert [t.name for t in plain.inputs] == ["points"]


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


def test_the_outputs_of_an_encoder_are_chosen_and_points_keep_their_type(colored):
    points = CLOUD[0] + np.array([500_000, 4_649_776, 100])
    chosen = [{"name": "points_1"}, {"name": "indices_1"}]
    made = encode_request(points, COLORS[0], datatype="FP64", outputs=chosen)
    answer = outputs(colored.ModelInfer(made))
    assert list(answer) == ["points_1", "indices_1"]
    assert answer["points_1"].dtype == np.float64
    np.testing.assert_array_equal(answer["points_1"], points[answer["indices_1"]])


def test_an_encoder_is_there_as_long_as_it_is_loaded(colored, colored_server):
    named = pb.ModelMetadataRequest(name="second")
    with farpoint.Client(colored_server.ready["admin_addresses"][0]) as admin:
        admin.load_model("second")
        assert colored.ModelReady(pb.ModelReadyRequest(name="second")).ready
        assert colored.ModelMetadata(named).name == "second"
        admin.unload_model("second")
    assert not colored.ModelReady(pb.ModelReadyRequest(name="second")).ready
    for ask in (
        lambda: colored.ModelMetadata(named),
        lambda: colored.ModelInfer(encode_request(CLOUD[0], model="second")),
        lambda: colored.ModelInfer(encode_request(CLOUD[0], model="")),
    ):
        with pytest.raises(grpc.RpcError, match=r"fps, density_small, colored") as caught:
            ask()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
