"""Ray Serve without Ray: settings and RPCs of the application, and a replica's answers."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import grpc
import numpy as np
import pytest
import yaml
from google.rpc import error_details_pb2, status_pb2
from tests.deploy.conftest import DEPLOY
from tests.support.messages import sample_request

from farpoint.v1 import admin_pb2
from farpoint.v1 import sampling_pb2 as pb
from farpoint_ops.arrays import sample_array
from farpoint_server.config.settings import Settings
from farpoint_server.ray_serve import application
from farpoint_server.ray_serve import replica as replica_module
from farpoint_server.ray_serve.application import replica_settings
from farpoint_server.ray_serve.methods import METHODS
from farpoint_server.ray_serve.replica import Replica
from farpoint_server.transport.interceptor import DETAILS_KEY, REQUEST_ID_KEY

CLOUD = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)


class RayContext:
    """As RayServegRPCContext, which travels to the replica and back."""

    def __init__(self, **metadata: str) -> None:
        self._metadata = [(name.replace("_", "-"), text) for name, text in metadata.items()]
        self.code: grpc.StatusCode | None = None
        self.details = ""
        self.trailers: dict[str, Any] = {}

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self._metadata

    def peer(self) -> str:
        return "ipv4:192.0.2.7:80"

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, trailing_metadata: list[Any]) -> None:
        assert isinstance(trailing_metadata, list)
        self.trailers = dict(trailing_metadata)


@pytest.fixture
async def replica(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    # Those of the whole process, which is the tests' here.
    monkeypatch.setattr(replica_module.logging, "configure", lambda _: None)
    monkeypatch.setattr(replica_module.host, "detect", lambda: replica_module.host.UnknownMalloc())
    settings = Settings(device=("cpu",), encoder=(), drain_grace_s=0, cpu_threads=1)
    made = object.__new__(Replica)
    await Replica.__init__(made, replica_settings(settings))
    yield made
    assert await made.app.drain()
    await made.app.stop(0)


async def aiter_of(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


def request(cloud: np.ndarray = CLOUD) -> bytes:
    return sample_request(cloud, 9).SerializeToString()


def test_it_has_a_method_of_the_right_kind_for_each_rpc():
    for method in METHODS:
        found = getattr(Replica, method.name)
        assert "grpc_context" in inspect.signature(found).parameters
        assert inspect.isasyncgenfunction(found) == method.server_streaming


async def test_a_sample_is_the_servers(replica):
    ray = RayContext(x_request_id="mine")
    answer = pb.SampleResponse.FromString(
        (await replica.Sample(request(), ray)).SerializeToString()
    )
    rows = np.frombuffer(answer.indices.data, "<i4")
    assert np.array_equal(rows, sample_array(CLOUD, 9).rows)
    assert ray.code is None
    assert ray.trailers[REQUEST_ID_KEY] == "mine"


async def test_an_error_has_its_status_and_details(replica):
    ray = RayContext()
    assert await replica.Sample(request(np.full((20, 3), np.nan, np.float32)), ray) == b""
    assert ray.code is grpc.StatusCode.INVALID_ARGUMENT
    status = status_pb2.Status.FromString(ray.trailers[DETAILS_KEY])
    assert status.message == ray.details
    wrong = error_details_pb2.BadRequest()
    assert status.details[0].Unpack(wrong)
    assert wrong.field_violations[0].field == "points.data"


async def test_a_stream_is_answered_in_order_and_then_has_its_status(replica):
    async def messages() -> AsyncIterator[bytes]:
        for cloud in (CLOUD, CLOUD[:5], CLOUD):
            sample = sample_request(cloud, 9)
            yield pb.SampleStreamRequest(request=sample).SerializeToString()

    ray = RayContext()
    answers = [
        pb.SampleStreamResponse.FromString(answer)
        async for answer in replica.SampleStream(messages(), ray)
    ]
    assert [a.WhichOneof("result") for a in answers] == ["response", "error", "response"]
    assert ray.code is None


async def test_a_stream_that_breaks_off_ends_its_call(replica):
    begun = asyncio.Event()

    async def messages() -> AsyncIterator[bytes]:
        yield pb.SampleStreamRequest(request=sample_request(CLOUD, 9)).SerializeToString()
        begun.set()
        await asyncio.Event().wait()

    answers = replica.SampleStream(messages(), RayContext())
    await anext(answers)
    await begun.wait()
    await answers.aclose()
    # A drain waits for open calls, and the fixture's would time out.
    await asyncio.wait_for(replica.app.drain(), 5)


async def test_health_answers_for_the_replica(replica):
    ray = RayContext()
    assert (await replica.Check(b"", ray)).SerializeToString() == b"\x08\x01"
    assert await replica.Check(b"\x0a\x04none", ray) == b""
    assert ray.code is grpc.StatusCode.NOT_FOUND
    await replica.check_health()
    await replica.app.drain()
    with pytest.raises(RuntimeError, match="engine"):
        await replica.check_health()


async def test_a_bug_is_internal_without_its_text(replica):
    """The bug is a method that the replica does not serve."""
    admin = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
    ray = RayContext(x_request_id="mine")
    answers = replica.answers(admin.methods_by_name["GetMemory"], aiter_of(b""), ray)
    assert [answer async for answer in answers] == [b""]
    assert ray.code is grpc.StatusCode.INTERNAL
    assert ray.details == "internal error; the server logged it for request mine"
    assert ray.trailers[REQUEST_ID_KEY] == "mine"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tls_certificate": "a.pem", "tls_key": "b.pem"}, "tls_certificate has no effect"),
        ({"admin_listen": "127.0.0.1:1"}, "admin_listen has no effect"),
        ({"http_listen": "127.0.0.1:80"}, "expected HOST:0, got '127.0.0.1:80'"),
    ],
)
def test_a_setting_without_effect_behind_ray_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        application.replica_settings(Settings(**settings))


def test_the_settings_of_the_configuration_file_are_those_of_a_replica_without_a_port():
    config = yaml.safe_load((DEPLOY / "ray" / "farpoint.yaml").read_text())
    (found,) = config["applications"]
    settings = application.replica_settings(Settings(**found["args"]))
    assert (settings.listen, settings.cpu_threads) == ((), 2)
    path = "farpoint_server.ray_serve.application"
    assert config["grpc_options"]["grpc_servicer_functions"] == [f"{path}.add_to_server"]
    assert found["import_path"] == f"{path}:application"


def test_proxies_have_every_rpc_of_requests_and_health():
    server = mock.Mock()
    application.add_to_server(None, server)
    generics = [call.args[0][0] for call in server.add_generic_rpc_handlers.call_args_list]

    def handler_of(path: str) -> grpc.RpcMethodHandler:
        found = [generic.service(mock.Mock(method=path)) for generic in generics]
        return next((handler for handler in found if handler), None)

    sampling, inference = "/farpoint.v1.SamplingService/", "/inference.GRPCInferenceService/"
    assert handler_of(f"{sampling}Sample").unary_unary
    assert handler_of(f"{sampling}SampleStream").stream_stream
    assert handler_of(f"{inference}ModelInfer").request_deserializer is None
    assert handler_of("/grpc.health.v1.Health/Check")
    assert handler_of("/grpc.health.v1.Health/Watch") is None
    assert handler_of(f"{inference}SystemSharedMemoryRegister") is None
    assert handler_of("/farpoint.v1.AdminService/GetMemory") is None
    names = [method.name for method in application.METHODS]
    assert len(names) == len(set(names))
