"""Options of the connection on either side of the command, hints, models, version."""

import grpc
import pytest
from tests.client.conftest import serving
from tests.support.clouds import cloud_file

import farpoint
from farpoint.testing import LocalServer, serve
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2_grpc
from farpoint.v1 import sampling_pb2 as pb


def test_the_server_on_either_side(server, farpoint):
    named = ["--server", server.target]
    for words in ([*named, "info"], ["info", *named], ["--server", "127.0.0.1:1", "info", *named]):
        result = farpoint(*words, server="127.0.0.1:1")
        assert result.exit_code == 0, result.output


def test_a_missing_file_is_named_without_a_server(farpoint, tmp_path):
    words = ("sample", tmp_path / "none.las", "-m", 5, "-o", tmp_path / "a.las")
    result = farpoint(*words, server="127.0.0.1:1")
    assert result.exit_code == 2
    assert result.stderr == f"farpoint: {tmp_path}/none.las: No such file or directory\n"


def test_a_hint_where_no_server_listens(farpoint, tmp_path):
    source = cloud_file("simple.las")
    result = farpoint("sample", source, "-m", 5, "-o", tmp_path / "a.las", server="127.0.0.1:1")
    assert result.exit_code == 1
    assert "no server answers at 127.0.0.1:1: `make serve`" in result.stderr
    assert "docker run" in result.stderr
    assert "--server names another" in result.stderr
    assert not list(tmp_path.iterdir())


class Models(sampling_pb2_grpc.SamplingServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    """Knows one model, and loads any."""

    def __init__(self):
        self.models = [pb.Model(name="small", rates=[0.5, 0.25], feature_channels=64)]

    def ListModels(self, request, context):  # noqa: N802, ARG002
        return pb.ListModelsResponse(models=self.models)

    def LoadModel(self, request, context):  # noqa: N802, ARG002
        self.models.append(pb.Model(name=request.name, rates=[1.0], feature_channels=8))
        return admin_pb2.LoadModelResponse(model=self.models[-1])

    def UnloadModel(self, request, context):  # noqa: N802
        found = [model for model in self.models if model.name == request.name]
        if not found:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model is named {request.name}")
        self.models.remove(found[0])
        return admin_pb2.UnloadModelResponse()


@pytest.fixture
def models_server():
    servicer = Models()
    with serving(
        (sampling_pb2_grpc.add_SamplingServiceServicer_to_server, servicer),
        (admin_pb2_grpc.add_AdminServiceServicer_to_server, servicer),
    ) as target:
        yield target


def test_models_are_listed_loaded_and_unloaded(farpoint, models_server):
    listed = farpoint("models", server=models_server)
    assert listed.stdout.startswith("small: 2 stages keep 0.5, 0.25 of their points, 64 features")
    loaded = farpoint("load", "mine", "--path", "/models/mine.safetensors", server=models_server)
    assert (loaded.exit_code, loaded.stdout[:5]) == (0, "mine:")
    assert farpoint("models", "--json", server=models_server).stdout.count("\n") == 2
    for name in ("small", "mine"):
        assert farpoint("unload", name, server=models_server).exit_code == 0
    assert farpoint("models", server=models_server).stdout == "no model is loaded\n"
    wrong = farpoint("unload", "other", server=models_server)
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("farpoint: no model is named other")


def test_only_commands_of_administration_are_sent_to_its_port(farpoint, server):
    for words in (["memory"], ["load", "mine"], ["unload", "mine"]):
        assert "--admin-listen" in farpoint(*words, server=server.target).stderr
    for words in (["models"], ["health"]):
        failed = farpoint(*words, server=server.target)
        assert failed.exit_code == 1
        assert failed.stderr.startswith("farpoint: Method not ")
        assert "--admin-listen" not in failed.stderr


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(farpoint.UnavailableError, match=r"ended: .*--device"):
        serve("--device=abacus")
    with pytest.raises(farpoint.UnavailableError, match="No module named"):
        LocalServer(["python3", "-c", "import absent"])
