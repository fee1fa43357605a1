"""Settings and RPCs of the application that Ray Serve is given."""

from unittest import mock

import grpc
import pytest
import yaml
from tests.deploy.conftest import DEPLOY

from farpoint_server.config.settings import Settings
from farpoint_server.ray_serve import application


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
