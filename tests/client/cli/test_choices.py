"""Choice of points and of the connection on the command line, hints, models."""

import json

import grpc
import numpy as np
import pytest
from tests.client.conftest import serving
from tests.client.io.made_files import ply_file
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud
from farpoint.testing import LocalServer, serve
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2_grpc
from farpoint.v1 import sampling_pb2 as pb

POINTS = np.random.default_rng(1).normal(size=(1000, 3)).astype(np.float32)


@pytest.fixture
def points_file(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    return tmp_path / "a.npy"


def rows_of(path):
    return np.load(path.with_suffix(".indices.npy"))


@pytest.mark.parametrize(("amount", "count"), [("5%", 50), ("0.04%", 1), ("100%", 1000), ("7", 7)])
def test_a_share(sample, points_file, tmp_path, amount, count):
    assert sample(points_file, "-m", amount, "-o", tmp_path / "b.npy").exit_code == 0
    assert len(np.load(tmp_path / "b.npy")) == count


@pytest.mark.parametrize("amount", ["0%", "101%", "x", "1.5", "%"])
def test_an_invalid_amount_is_named(sample, points_file, tmp_path, amount):
    result = sample(points_file, "-m", amount, "-o", tmp_path / "b.npy")
    assert (result.exit_code, result.stderr) == (
        2,
        f"farpoint: -m must be a number or a share like 5%, got {amount!r}\n",
    )


def test_all_if_there_are_fewer(sample, server, points_file, tmp_path):
    result = sample(points_file, "-m", 2000, "-o", tmp_path / "b.npy")
    assert "got 2000: --all-if-fewer takes them all" in result.stderr
    result = sample(points_file, "-m", 2000, "-o", tmp_path / "b.npy", "--all-if-fewer")
    assert result.exit_code == 0
    assert "covering radius 0," in result.stdout.replace("\n", ",")
    assert np.array_equal(np.load(tmp_path / "b.npy"), POINTS)
    assert not server.requests


def test_rows_without_a_return(sample, client, tmp_path):
    points = POINTS.copy()
    points[::3] = 0
    points[1] = np.nan
    np.save(tmp_path / "a.npy", points)
    words = [tmp_path / "a.npy", "-m", 40, "-o", tmp_path / "b.npy", "--indices", "--skip-zero"]
    result = sample(*words)
    assert result.exit_code == 2
    assert "1 rows are not finite, the first is 1: --nonfinite ignore" in result.stderr
    assert sample(*words, "--nonfinite", "ignore").exit_code == 0
    rows = rows_of(tmp_path / "b.npy")
    kept = np.flatnonzero(np.isfinite(points).all(1) & points.any(1))
    assert rows.tolist() == kept[client.sample(points[kept], 40).indices].tolist()
    assert sample(*words, "--nonfinite", "ignore", "--start", 5).exit_code == 0
    assert rows_of(tmp_path / "b.npy")[0] == 5
    result = sample(*words, "--nonfinite", "ignore", "--start", 6)
    assert "--start must be a row that may be chosen" in result.stderr


def test_nothing_is_sent_that_the_server_would_refuse(sample, server, tmp_path):
    np.save(tmp_path / "a.npy", np.full((5, 3), np.nan))
    assert sample(tmp_path / "a.npy", "-m", 2, "-o", tmp_path / "b.npy").exit_code == 2
    result = sample(tmp_path / "a.npy", "-m", 2, "-o", tmp_path / "b.npy", "--nonfinite", "ignore")
    assert "from 1 to the 0 points that may be chosen" in result.stderr
    assert not server.requests


def test_a_cloud_above_the_server_s_limit_is_refused(sample, server, points_file, tmp_path):
    server.request_points = 800
    result = sample(points_file, "-m", 30, "-o", tmp_path / "b.npy")
    assert result.exit_code == 2
    assert "1000 points, and the server takes 800 at once (--max-request-points" in result.stderr
    assert not server.requests


def test_columns_and_arrays_are_named_on_the_command_line(sample, tmp_path):
    rows = np.column_stack([POINTS, np.zeros(1000), np.arange(1000) % 64]).astype("<f4")
    rows.tofile(tmp_path / "a.bin")
    words = [tmp_path / "a.bin", "-m", 5, "-o", tmp_path / "b.ply"]
    assert sample(*words, "--columns", "x, y,z,i,ring").exit_code == 0
    assert "ring" in read_cloud(tmp_path / "b.ply").attributes
    np.savez(tmp_path / "a.npz", one=POINTS[:10], two=POINTS)
    words = [tmp_path / "a.npz", "-m", 5, "-o", tmp_path / "b.ply"]
    assert "5 of 10 points" in sample(*words, "--array", "one").stdout


def test_a_column_of_text_is_left_out_of_a_ply_with_a_note(sample, tmp_path):
    rows = "".join(f"P{i},{i},{i % 7},{i % 5}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f"name,x,y,z\n{rows}")
    result = sample(tmp_path / "a.csv", "-m", 5, "-o", tmp_path / "b.ply")
    assert result.exit_code == 0
    assert result.stdout.strip().endswith("; left out: name")
    assert list(read_cloud(tmp_path / "b.ply").attributes) == []


def test_notes_of_a_file_and_of_its_output_are_told_once(sample, tmp_path):
    (tmp_path / "a.ply").write_bytes(ply_file("ascii", lists=True, others=True))
    told = "left out: 2 of the element face"
    for name in ("b.ply", "b.pcd"):
        result = sample(tmp_path / "a.ply", "-m", 2, "-o", tmp_path / name)
        assert result.stdout.count(told) == 1
        assert result.stdout.count("not an attribute: ") == 1


def test_json_lines_of_columns_that_are_no_numbers_or_have_their_names(sample, tmp_path):
    rows = np.zeros(
        40, [*((axis, "f4") for axis in "xyz"), ("index", "u1"), ("when", "M8[s]"), ("s", "S2")]
    )
    rows["x"], rows["index"], rows["s"] = np.arange(40), 7, b"\xe4"
    np.save(tmp_path / "a.npy", rows)
    lines = sample(tmp_path / "a.npy", "-m", 3, "-o", "-").stdout.splitlines()
    for point in map(json.loads, lines):
        assert point["index"] == point["x"]
        assert (point["index_2"], point["when"], point["s"]) == (7, "1970-01-01T00:00:00", "ä")


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
        if request.path.endswith(".pt2"):
            tensors = {
                "inputs": [pb.ModelTensor(name="xyz")],
                "outputs": [pb.ModelTensor(name="s")],
            }
            self.models.append(pb.Model(name=request.name, parameter_count=1234, **tensors))
        else:
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
    loaded = farpoint("load", "net", "--path", "/models/net.pt2", server=models_server)
    assert loaded.stdout == "net: xyz -> s, 1,234 parameters\n"
    for name in ("small", "mine", "net"):
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
