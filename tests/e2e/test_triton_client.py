"""NVIDIA's own clients, unmodified, over gRPC and HTTP against a real server: every call."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from tests.support.servers.http_caller import HTTP, HttpCaller
from tests.support.servers.server_process import RunningServer

from farpoint.inference import open_inference_pb2 as pb

triton = pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")

RANDOM = np.random.default_rng(6)
CLOUD = RANDOM.normal(size=(2, 300, 3)).astype(np.float32)
FEATURES = RANDOM.random((2, 300, 5))
SHIPPED = "density_small"


def tensor(name: str, array: np.ndarray) -> Any:
    """An input with the data of an array in the message."""
    made = triton.InferInput(name, array.shape, datatype_of(array))
    made.set_data_from_numpy(array)
    return made


def datatype_of(array: np.ndarray) -> str:
    """The protocol's name of an array's elements."""
    kinds = {"f": "FP", "i": "INT", "u": "UINT"}
    return "BOOL" if array.dtype == bool else f"{kinds[array.dtype.kind]}{array.itemsize * 8}"


def fps_inputs(cloud: np.ndarray = CLOUD, count: int = 20, **others: np.ndarray) -> list[Any]:
    """Inputs of the model `fps`."""
    named = {"points": cloud, "sample_count": np.array([count]), **others}
    return [tensor(name, array) for name, array in named.items()]


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    """Status and text of a call that has to fail."""
    with pytest.raises(triton.InferenceServerException) as caught:
        call()
    return caught.value.status(), caught.value.message()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer("--encoder", "default", *HTTP) as server:
        yield server
    assert not [line for line in server.log if line["level"] == "error"]


@pytest.fixture(scope="module")
def stock(server: RunningServer) -> Iterator[Any]:
    with triton.InferenceServerClient(server.address) as client:
        yield client


def test_server_and_models_are_described(stock):
    assert stock.is_server_live()
    assert stock.is_server_ready()
    metadata = stock.get_server_metadata(as_json=True)
    assert metadata["name"] == "farpoint-server"
    assert metadata["extensions"] == ["model_configuration", "parameters", "binary_tensor_data"]
    listed = stock.get_model_repository_index().models
    assert [(model.name, model.state) for model in listed] == [("fps", "READY"), (SHIPPED, "READY")]
    assert stock.is_model_ready("fps")
    assert stock.is_model_ready(SHIPPED, "1")
    assert not stock.is_model_ready("resnet")
    config = stock.get_model_config("fps", as_json=True)["config"]
    assert (config["name"], config["platform"]) == ("fps", "farpoint")
    assert [(i["name"], i["data_type"], i.get("optional", False)) for i in config["input"]] == [
        ("points", "TYPE_FP32", False),
        ("sample_count", "TYPE_INT64", False),
        ("features", "TYPE_FP32", True),
        ("start", "TYPE_INT64", True),
    ]
    for name in ("fps", SHIPPED):
        config = stock.get_model_config(name).config
        outputs = stock.get_model_metadata(name).outputs
        assert [o.name for o in config.output] == [o.name for o in outputs]


def test_it_samples(stock, client):
    result = stock.infer("fps", fps_inputs(start=np.array([7])), request_id="7")
    assert result.get_response().id == "7"
    for name in ("indices", "distances", "points"):
        wanted = np.array([getattr(s, name) for s in client.sample(CLOUD, 20, start=7)])
        np.testing.assert_array_equal(result.as_numpy(name), wanted)
    assert result.as_numpy("features") is None


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", "<i1", "<u2", "<i4", "<u8", "?"])
def test_features_of_any_type_are_sampled_from_a_start(stock, client, dtype):
    features, starts = (FEATURES * 100).astype(dtype), [3, 5]
    made = fps_inputs(features=features, start=np.array(starts))
    names = ["features", "indices", "points"]
    result = stock.infer("fps", made, outputs=[triton.InferRequestedOutput(n) for n in names])
    assert [o.name for o in result.get_response().outputs] == names
    rows = np.array([s.indices for s in client.sample(CLOUD, 20, start=starts)])
    np.testing.assert_array_equal(result.as_numpy("indices"), rows)
    assert result.as_numpy("features").dtype == features.dtype
    for name, of_points in (("features", features), ("points", CLOUD)):
        wanted = np.take_along_axis(of_points, rows[:, :, None], axis=1)
        np.testing.assert_array_equal(result.as_numpy(name), wanted)


def test_a_time_that_is_too_short(stock):
    cloud = RANDOM.random((200_000, 3), np.float32)
    made = fps_inputs(cloud, 50_000)
    assert refusal(lambda: stock.infer("fps", made, timeout=1))[0] == "StatusCode.DEADLINE_EXCEEDED"
    assert refusal(lambda: stock.infer("fps", made, timeout=-1)) == (
        "StatusCode.INVALID_ARGUMENT",
        "parameters[timeout]: expected microseconds, got -1",
    )


def test_the_contract_is_wire_compatible_with_the_stock_clients():
    service = pytest.importorskip("tritonclient.grpc.service_pb2")
    theirs, ours = (
        descriptor_pb2.FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb)
        for file in (service, pb)
    )
    model_config = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    config = descriptor_pb2.FileDescriptorProto.FromString(model_config.DESCRIPTOR.serialized_pb)
    known = {m.name: m for file in (theirs, config) for m in file.message_type}
    for message in ours.message_type:
        assert_subset(message, known[message.name])
    (data_type,) = ours.enum_type
    (other,) = (enum for enum in config.enum_type if enum.name == data_type.name)
    assert [(v.name, v.number) for v in data_type.value] == [
        (v.name, v.number) for v in other.value
    ]
    methods = {m.name: m for service in theirs.service for m in service.method}
    for method in ours.service[0].method:
        assert method == methods[method.name]


def assert_subset(ours, theirs):
    fields = {field.number: field for field in theirs.field}
    for field in ours.field:
        other = fields[field.number]
        assert (field.name, field.type, field.label) == (other.name, other.type, other.label)
        assert field.type_name.rpartition(".")[2] == other.type_name.rpartition(".")[2]
    nested = {message.name: message for message in theirs.nested_type}
    for message in ours.nested_type:
        assert_subset(message, nested[message.name])


@pytest.fixture
def open_stream(stock: Any) -> Iterator[Callable[..., "queue.Queue[tuple[Any, Any]]"]]:
    """Opens a stream of the stock client; its answers and errors arrive in a queue."""

    def start(**options: Any) -> "queue.Queue[tuple[Any, Any]]":
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        stock.start_stream(lambda result, error: answers.put((result, error)), **options)
        return answers

    yield start
    stock.stop_stream()


def test_answers_come_in_the_order_of_the_requests(stock, open_stream, client):
    """Whichever is done first: large clouds are between small ones."""
    sizes = [100_000, 50, 60_000, 40, 50, 80_000, 40, 30, 20_000, 30, 35, 40]
    clouds, answers = [RANDOM.random((n, 3), np.float32) for n in sizes], open_stream()
    for i, cloud in enumerate(clouds):
        stock.async_stream_infer("fps", fps_inputs(cloud, 30), request_id=str(i))
    for i, cloud in enumerate(clouds):
        result, error = answers.get(timeout=60)
        assert error is None
        response = result.get_response()
        assert response.id == str(i)
        assert response.parameters["triton_final_response"].bool_param
        np.testing.assert_array_equal(result.as_numpy("indices"), client.sample(cloud, 30).indices)


def test_a_request_of_a_stream_that_fails_fails_alone_and_is_named(channel: grpc.Channel):
    stream = channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )
    wrong = [
        pb.ModelInferRequest(model_name="fps", id="the-id").SerializeToString(),
        b"\xff\xff",
        pb.ModelInferRequest(model_name="resnet", id="another").SerializeToString(),
    ]
    first, second, third = stream(iter(wrong))
    assert first.error_message == "inputs: expected the input 'points', got none of this name"
    assert (first.infer_response.id, first.infer_response.model_name) == ("the-id", "fps")
    assert not first.infer_response.outputs
    assert second.error_message.startswith("request: expected a serialized message")
    assert third.error_message.startswith("model_name: expected one of fps")
    assert third.infer_response.id == "another"


@pytest.fixture
def http(server) -> Iterator[HttpCaller]:
    with HttpCaller(server) as http:
        yield http


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/v2", 200),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 200),
        ("GET", "/v2/models/fps", 200),
        ("GET", "/v2/models/fps/versions/1", 200),
        ("GET", "/v2/models/fps/versions/1/config", 200),
        ("GET", "/v2/models/fps/ready", 200),
        ("GET", "/v2/models/none/ready", 400),
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/fps/versions/2", 404),
        ("POST", "/v2/models/fps", 405),
        ("GET", "/v2/models/fps/infer", 405),
        ("GET", "/v2/nothing", 404),
        ("POST", "/v2/nothing", 404),
    ],
)
def test_paths_have_their_statuses(http, verb, path, status):
    assert http.request(verb, path).status == status


@pytest.fixture(scope="module")
def rest() -> Any:
    # Without geventhttpclient tritonclient.http raises RuntimeError.
    pytest.importorskip("geventhttpclient", reason="tritonclient[http] is not installed")
    return pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")


@pytest.fixture
def over_http(rest: Any, server: RunningServer) -> Iterator[Any]:
    with rest.InferenceServerClient(server.ready["http_address"]) as client:
        yield client


def http_inputs(rest: Any, binary: bool = True) -> list[Any]:
    made = []
    for name, array in (("points", CLOUD), ("sample_count", np.array([20]))):
        made.append(rest.InferInput(name, array.shape, datatype_of(array)))
        made[-1].set_data_from_numpy(array, binary_data=binary)
    return made


def test_over_http_it_sees_server_and_models(over_http):
    assert over_http.is_server_live()
    assert over_http.is_server_ready()
    assert over_http.is_model_ready("fps")
    assert over_http.is_model_ready("fps", "1")
    assert not over_http.is_model_ready("none")
    assert over_http.get_server_metadata()["name"] == "farpoint-server"
    assert over_http.get_model_metadata("fps")["inputs"][0]["shape"] == [-1, 3]
    assert over_http.get_model_config("fps")["max_batch_size"] == 0
    assert "fps" in {model["name"] for model in over_http.get_model_repository_index()}


@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("binary_in", [True, False])
def test_over_http_it_samples(rest, over_http, client, binary_in, binary_out):
    outputs, wanted = None, [sample.indices for sample in client.sample(CLOUD, 20)]
    if binary_out is not None:
        outputs = [rest.InferRequestedOutput("indices", binary_data=binary_out)]
    result = over_http.infer(
        "fps", http_inputs(rest, binary_in), outputs=outputs, request_id="mine"
    )
    np.testing.assert_array_equal(result.as_numpy("indices"), wanted)
    assert result.get_response()["id"] == "mine"
    if outputs is None:
        np.testing.assert_array_equal(result.as_numpy("points")[0], CLOUD[0][wanted[0]])


def test_over_http_an_error_has_its_status_and_text(rest, over_http):
    with pytest.raises(rest.InferenceServerException, match="one of fps") as caught:
        over_http.infer("none", http_inputs(rest))
    assert caught.value.status() == "404"
