"""`fps` and the encoders over the Open Inference Protocol: raw messages, and a stock client."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.servers.server_process import DEVICE, RunningServer

from farpoint.inference import open_inference_pb2 as pb
from farpoint.inference import open_inference_pb2_grpc
from farpoint_models import DensityEncoder, EncoderConfig, save_encoder

RANDOM = np.random.default_rng(5)
CLOUD = RANDOM.normal(size=(2, 300, 3)).astype(np.float32)
COLORS = RANDOM.random((2, 300, 3), np.float32)
# A GPU adds the distances of a sample's points in any order.
TOLERANCE = {"rtol": 0, "atol": 0} if DEVICE == "cpu" else {"rtol": 1e-4, "atol": 1e-5}
STAGE = ("indices", "features", "counts", "mean_distances")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[RunningServer]:
    """With an encoder of two stages that takes colors."""
    path: Path = tmp_path_factory.mktemp("encoders") / "colored.safetensors"
    size = {"channels": 8, "hidden": 8, "neighbors": 8, "groups": 2}
    save_encoder(DensityEncoder(EncoderConfig(rates=(0.25, 0.5), attributes=3, **size)), path)
    with RunningServer("--encoder", f"colored={path}") as server:
        yield server


@pytest.fixture(scope="module")
def inference(channel):
    return open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def outputs(response):
    types = {"INT32": "<i4", "INT64": "<i8", "FP32": "<f4"}
    return {
        tensor.name: np.frombuffer(data, types[tensor.datatype]).reshape(tensor.shape)
        for tensor, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def encode_request(points, colors):
    made = pb.ModelInferRequest(model_name="colored", id="the-id")
    for name, array in (("points", points), ("attributes", colors)):
        made.inputs.add(name=name, datatype="FP32", shape=array.shape)
        made.raw_input_contents.append(array.tobytes())
    return made


@pytest.mark.parametrize("one", [False, True], ids=["batch", "one cloud"])
def test_the_stages_are_those_of_encode(inference, client, one):
    points, colors = (CLOUD[0], COLORS[0]) if one else (CLOUD, COLORS)
    response = inference.ModelInfer(encode_request(points, colors))
    assert (response.model_name, response.id) == ("colored", "the-id")
    answer = outputs(response)
    assert list(answer) == [f"{kind}_{i}" for i in (0, 1) for kind in ("lengths", *STAGE)]
    encodings = client.encode(points, model="colored", attributes=colors if one else list(colors))
    for i in (0, 1):
        for kind in STAGE:
            each = [getattr(e.stages[i], kind) for e in ([encodings] if one else encodings)]
            expected = each[0] if one else each
            np.testing.assert_allclose(answer[f"{kind}_{i}"], expected, **TOLERANCE)
        assert (answer[f"lengths_{i}"] == answer[f"indices_{i}"].shape[-1]).all()
