"""NVIDIA's own client, unmodified, against a real server: every call that it has."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from tests.e2e.open_inference.triton import CLOUD, fps_inputs, refusal, triton
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint.inference import open_inference_pb2 as pb

RANDOM = np.random.default_rng(6)
FEATURES = RANDOM.random((2, 300, 5))
SHIPPED = "density_small"


@pytest.fixture(scope="module")
def triton_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    admin = f"unix:{tmp_path_factory.mktemp('admin')}/socket"
    server = RunningServer("--encoder", "default", "--admin-listen", admin)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def stock(triton_server: RunningServer) -> Iterator[Any]:
    with triton.InferenceServerClient(triton_server.address) as client:
        yield client


@pytest.fixture(scope="module")
def admin(triton_server: RunningServer) -> Iterator[Any]:
    line = triton_server.wait_for(lambda line: line["event"] == "ready")
    with triton.InferenceServerClient(line["admin_addresses"][0]) as client:
        yield client


@pytest.fixture(scope="module")
def ours(triton_server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(triton_server.address) as client:
        yield client


def test_the_server_says_what_it_is(stock):
    assert stock.is_server_live()
    assert stock.is_server_ready()
    metadata = stock.get_server_metadata(as_json=True)
    assert metadata["name"] == "farpoint-server"
    assert {"model_repository", "model_configuration", "statistics"} <= set(metadata["extensions"])
    assert not any("shared_memory" in name for name in metadata["extensions"])


def test_the_models_say_what_they_take_and_give(stock):
    assert stock.is_model_ready("fps")
    assert stock.is_model_ready(SHIPPED, "1")
    assert not stock.is_model_ready("resnet")
    inputs = {t.name: t.datatype for t in stock.get_model_metadata("fps").inputs}
    assert inputs == {
        "points": "FP32",
        "sample_count": "INT64",
        "features": "FP32",
        "start": "INT64",
    }
    config = stock.get_model_config("fps", as_json=True)["config"]
    assert [(i["name"], i["data_type"], i.get("optional", False)) for i in config["input"]] == [
        ("points", "TYPE_FP32", False),
        ("sample_count", "TYPE_INT64", False),
        ("features", "TYPE_FP32", True),
        ("start", "TYPE_INT64", True),
    ]
    assert [o["name"] for o in config["output"]] == ["indices", "distances", "points", "features"]
    assert config["instance_group"] == [{"name": "fps_0", "count": 1, "kind": "KIND_CPU"}]
    assert (config["name"], config["platform"]) == ("fps", "farpoint")
    encoder = stock.get_model_config(SHIPPED).config
    outputs = stock.get_model_metadata(SHIPPED).outputs
    assert [o.name for o in encoder.output] == [o.name for o in outputs]
    status, text = refusal(lambda: stock.get_model_config("resnet"))
    assert status == "StatusCode.NOT_FOUND"
    assert text == f"model_name: expected one of fps, {SHIPPED}, got 'resnet'"


def test_it_samples(stock, ours):
    result = stock.infer("fps", fps_inputs(), request_id="7", parameters={"start_index": 7})
    assert result.get_response().id == "7"
    for name in ("indices", "distances", "points"):
        wanted = np.array([getattr(s, name) for s in ours.sample(CLOUD, 20, start=7)])
        np.testing.assert_array_equal(result.as_numpy(name), wanted)
    assert result.as_numpy("features") is None


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", "<i1", "<u2", "<i4", "<u8", "?"])
@pytest.mark.parametrize("one", [False, True], ids=["batch", "one cloud"])
def test_features_of_any_type_are_sampled_from_a_start(stock, ours, dtype, one):
    features = (FEATURES * 100).astype(dtype)
    starts = np.array([3, 5])
    cloud, features, starts = (
        (a[0] for a in (CLOUD, features, starts)) if one else (CLOUD, features, starts)
    )
    made = fps_inputs(cloud, features=features, start=np.atleast_1d(starts))
    names = ["features", "indices", "points"]
    result = stock.infer("fps", made, outputs=[triton.InferRequestedOutput(n) for n in names])
    assert [o.name for o in result.get_response().outputs] == names
    samples = ours.sample(cloud, 20, start=starts.tolist())
    indices = samples.indices if one else np.array([s.indices for s in samples])
    np.testing.assert_array_equal(result.as_numpy("indices"), indices)
    got = result.as_numpy("features")
    assert got.dtype == features.dtype
    clouds = [(features, cloud, indices)] if one else zip(features, cloud, indices, strict=True)
    expected = [(f[i], c[i]) for f, c, i in clouds]
    np.testing.assert_array_equal(got.reshape(-1, 20, 5), np.array([f for f, _ in expected]))
    points = result.as_numpy("points").reshape(-1, 20, 3)
    np.testing.assert_array_equal(points, np.array([c for _, c in expected]))


def test_features_without_dimensions_of_their_own(stock):
    labels = np.arange(300, dtype=np.int16)
    result = stock.infer("fps", fps_inputs(CLOUD[0], features=labels))
    np.testing.assert_array_equal(result.as_numpy("features"), result.as_numpy("indices"))


def test_a_call_in_the_background(stock, ours):
    answer: Future[Any] = Future()

    def done(result: Any, error: Exception | None) -> None:
        answer.set_exception(error) if error else answer.set_result(result)

    stock.async_infer("fps", fps_inputs(), done)
    indices = np.array([s.indices for s in ours.sample(CLOUD, 20)])
    np.testing.assert_array_equal(answer.result(60).as_numpy("indices"), indices)


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"sample_count": np.array([301])},
         "inputs[sample_count][0]: expected 1 to 300, the points of cloud 0, got 301"),
        ({"start": np.array([1, 300])},
         "inputs[start][1]: expected 0 to 299, the points of cloud 1, got 300"),
        ({"start": np.array([1, 2, 3])}, "inputs[start].shape: expected one element, or one for "
         "each of the 2 clouds, got (3,)"),
        ({"features": FEATURES[:, 1:]},
         "inputs[features].shape: expected (2, 300, ...), a row for each point, got (2, 299, 5)"),
        ({"features": np.float32(1).reshape(1)},
         "inputs[features].shape: expected (2, 300, ...), a row for each point, got (1,)"),
        ({"colors": FEATURES}, "inputs[2].name: expected each of points, sample_count, features, "
         "start once, got 'colors'"),
    ],
)  # fmt: skip
def test_a_wrong_input_is_named(stock, others, text):
    assert refusal(lambda: stock.infer("fps", fps_inputs(**others))) == (
        "StatusCode.INVALID_ARGUMENT",
        text,
    )


def test_features_that_were_not_sent_cannot_be_asked_for(stock):
    wanted = [triton.InferRequestedOutput("features")]
    assert refusal(lambda: stock.infer("fps", fps_inputs(), outputs=wanted))[1] == (
        "outputs[0].name: expected one of indices, distances, points, got 'features'"
    )


def test_a_start_is_given_once(stock):
    made = fps_inputs(start=np.array([1]))
    text = refusal(lambda: stock.infer("fps", made, parameters={"start_index": 1}))[1]
    assert text == "parameters[start_index]: expected none beside the input 'start', got both"


def test_a_time_that_is_too_short(stock):
    cloud = RANDOM.random((200_000, 3), np.float32)
    made = fps_inputs(cloud, 50_000)
    assert refusal(lambda: stock.infer("fps", made, timeout=1))[0] == "StatusCode.DEADLINE_EXCEEDED"
    assert refusal(lambda: stock.infer("fps", made, timeout=-1)) == (
        "StatusCode.INVALID_ARGUMENT",
        "parameters[timeout]: expected microseconds, got -1",
    )


def test_statistics_count_every_request_of_a_model(stock, ours):
    def fps() -> Any:
        (one,) = stock.get_inference_statistics("fps").model_stats
        return one

    before = fps()
    stock.infer("fps", fps_inputs())
    ours.sample(CLOUD[0], 5)
    refusal(lambda: stock.infer("fps", fps_inputs(np.full_like(CLOUD, np.nan))))
    after = fps()
    assert (after.name, after.version) == ("fps", "1")
    assert after.inference_count - before.inference_count == 3  # clouds
    assert after.execution_count - before.execution_count == 2
    assert after.last_inference >= before.last_inference > 0 or before.last_inference == 0
    was, now = before.inference_stats, after.inference_stats
    for phase in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert getattr(now, phase).count - getattr(was, phase).count == 2, phase
    assert now.fail.count - was.fail.count == 1
    assert now.success.ns - was.success.ns >= now.compute_infer.ns - was.compute_infer.ns > 0
    assert sum(b.compute_infer.count for b in after.batch_stats) == after.execution_count
    assert {s.name for s in stock.get_inference_statistics().model_stats} == {"fps", SHIPPED}
    assert refusal(lambda: stock.get_inference_statistics("x"))[0] == "StatusCode.NOT_FOUND"


def test_models_are_listed_unloaded_and_loaded_at_the_admin_address(stock, admin):
    def states() -> dict[str, str]:
        return {m.name: m.state for m in stock.get_model_repository_index().models}

    assert states() == {"fps": "READY", SHIPPED: "READY"}
    for call in (stock.load_model, stock.unload_model):
        status, text = refusal(lambda call=call: call(SHIPPED))
        assert status == "StatusCode.UNIMPLEMENTED"
        assert text.endswith("is answered at the addresses of --admin-listen alone")
    admin.unload_model(SHIPPED)
    try:
        assert states() == {"fps": "READY", SHIPPED: "UNAVAILABLE"}
        assert not stock.is_model_ready(SHIPPED)
    finally:
        admin.load_model(SHIPPED)
    assert stock.is_model_ready(SHIPPED)
    assert admin.is_model_ready(SHIPPED)
    admin.load_model("fps")
    assert refusal(lambda: admin.unload_model("fps")) == (
        "StatusCode.INVALID_ARGUMENT",
        "model_name: expected a loaded model, got 'fps', which is built in",
    )


def test_a_model_is_loaded_from_a_path_in_its_configuration(stock, admin):
    from farpoint_models import weights

    path = f'{{"parameters": {{"path": {{"string_value": "{weights.DEFAULT}"}}}}}}'
    assert refusal(lambda: admin.load_model("copy"))[0] == "StatusCode.NOT_FOUND"
    admin.load_model("copy", config=path)
    assert stock.is_model_ready("copy")
    admin.load_model("copy")  # anew, from the same path
    admin.unload_model("copy", unload_dependents=True)
    assert not stock.is_model_ready("copy")
    for wrong in ("not JSON", "[]", '{"parameters": {"path": {"string_value": 7}}}'):
        status, text = refusal(lambda wrong=wrong: admin.load_model("copy", config=wrong))
        assert (status, text[:19]) == ("StatusCode.INVALID_ARGUMENT", "parameters[config]:")
    status, text = refusal(
        lambda: admin.load_model("copy", config="{}", files={"file:1/model": b"x"})
    )
    assert text.startswith("parameters[file:1/model]: expected a path on the server")


def test_an_administrator_at_the_public_port_learns_where_to_go(ours):
    for call in (ours.memory, ours.trim_memory, lambda: ours.unload_model("pool")):
        with pytest.raises(farpoint.UnimplementedError, match="addresses of --admin-listen alone"):
            call()


def test_what_is_not_there_says_so(stock):
    for call, name in (
        (stock.get_trace_settings, "TraceSetting"),
        (lambda: stock.update_trace_settings(settings={"trace_rate": "1"}), "TraceSetting"),
        (stock.get_log_settings, "LogSettings"),
        (lambda: stock.update_log_settings({"log_verbose_level": 1}), "LogSettings"),
        (lambda: stock.register_cuda_shared_memory("x", b"aGFuZGxl", 0, 8), "CudaShared"),
        (stock.unregister_cuda_shared_memory, "CudaSharedMemoryUnregister: tensors come"),
        (lambda: stock.register_system_shared_memory("x", "/x", 8), "SystemSharedMemoryRegister"),
        (stock.get_system_shared_memory_status, "SystemSharedMemoryStatus"),
        (stock.unregister_system_shared_memory, "SystemSharedMemoryUnregister"),
    ):
        status, text = refusal(call)
        assert status == "StatusCode.UNIMPLEMENTED"
        assert text.startswith(name)
        assert len(text.split()) > 4


# Tested here, or in test_triton_stream.py; the others are not calls.
CALLS = {
    *("is_server_live", "is_server_ready", "is_model_ready", "get_server_metadata"),
    *("get_model_metadata", "get_model_config", "get_model_repository_index", "load_model"),
    *("unload_model", "get_inference_statistics", "update_trace_settings", "get_trace_settings"),
    *("update_log_settings", "get_log_settings", "get_system_shared_memory_status"),
    *("register_system_shared_memory", "unregister_system_shared_memory"),
    *("get_cuda_shared_memory_status", "register_cuda_shared_memory"),
    *("unregister_cuda_shared_memory", "infer", "async_infer", "start_stream"),
    *("async_stream_infer", "stop_stream"),
}


def test_there_is_no_other_call():
    public = {name for name in dir(triton.InferenceServerClient) if not name.startswith("_")}
    assert public - CALLS == {"close", "plugin", "register_plugin", "unregister_plugin"}


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
