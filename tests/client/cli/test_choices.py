"""Choice of points and of the connection on the command line, hints, models."""

import numpy as np
import pytest
from tests.client.io.made_files import ply_file
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud
from farpoint.testing import LocalServer, serve

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
