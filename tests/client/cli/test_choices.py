"""Choice of points: shares, small clouds, no-returns, non-finite points, clouds in parts."""

import json

import numpy as np
import pytest
from tests.support.clouds import cloud_file

from farpoint.io import read_cloud

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
def test_no_share(sample, points_file, tmp_path, amount):
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


@pytest.mark.parametrize("name", ["autzen_trim_part.laz", "street_map_part.ply"])
def test_a_cloud_above_the_server_s_limit_is_sampled_in_parts(sample, server, tmp_path, name):
    server.request_points = 800
    source = cloud_file(name)
    output = tmp_path / f"a{source.suffix}"
    words = ["-m", 30, "-o", output, "--indices", "--start", 1_500]
    result = sample(source, *words, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    cloud = read_cloud(source)
    assert (report["exact"], report["parts"]) == (False, -(-len(cloud) // 800))
    rows = rows_of(output)
    assert rows[0] == 1_500
    assert len(set(rows.tolist())) == 30
    assert np.array_equal(read_cloud(output).points, cloud.points[rows])
    nearest = np.full(len(cloud), np.inf)
    for row in rows:
        distance = np.linalg.norm(cloud.points.astype(float) - cloud.points[row], axis=1)
        nearest = np.minimum(nearest, distance)
    assert nearest.max() <= report["covering_radius"] * (1 + 1e-5)
    result = sample(source, *words)
    assert "covering radius at most" in result.stdout
    assert "exact for each part, not for the whole" in result.stdout


def test_more_parts_than_fit_are_reduced_on_the_way(sample, server, points_file, tmp_path):
    server.request_points = 60
    result = sample(points_file, "-m", 25, "-o", tmp_path / "b.npy", "--indices", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    rows = rows_of(tmp_path / "b.npy")
    assert len(set(rows.tolist())) == 25
    assert rows[0] == 0
    nearest = np.linalg.norm(POINTS[:, None] - POINTS[rows], axis=2).min(axis=1)
    assert nearest.max() <= report["covering_radius"] * (1 + 1e-5)
    assert max(request.points.shape[0] for request in server.requests) <= 60
    result = sample(points_file, "-m", 31, "-o", tmp_path / "b.npy")
    assert "-m must be at most half of that, got 31" in result.stderr


def test_parts_skip_what_is_not_to_be_chosen(sample, server, tmp_path):
    points = POINTS.copy()
    points[:400] = 0
    points[700:] = np.nan
    np.save(tmp_path / "a.npy", points)
    server.request_points = 100
    options = ["--skip-zero", "--nonfinite", "ignore", "--indices"]
    result = sample(tmp_path / "a.npy", "-m", 20, "-o", tmp_path / "b.npy", *options)
    assert result.exit_code == 0, result.output
    assert ((rows_of(tmp_path / "b.npy") >= 400) & (rows_of(tmp_path / "b.npy") < 700)).all()


def test_columns_and_arrays_are_named_on_the_command_line(sample, tmp_path):
    rows = np.column_stack([POINTS, np.zeros(1000), np.arange(1000) % 64]).astype("<f4")
    rows.tofile(tmp_path / "a.bin")
    words = [tmp_path / "a.bin", "-m", 5, "-o", tmp_path / "b.ply"]
    result = sample(*words)
    assert "--columns x,y,z,i,ring" in result.stderr
    assert sample(*words, "--columns", "x, y,z,i,ring").exit_code == 0
    assert "ring" in read_cloud(tmp_path / "b.ply").attributes
    assert "columns must name x, y and z" in sample(*words, "--columns", "a,b").stderr
    np.savez(tmp_path / "a.npz", one=POINTS[:10], two=POINTS)
    words = [tmp_path / "a.npz", "-m", 5, "-o", tmp_path / "b.ply"]
    assert "choose one with --array NAME" in sample(*words).stderr
    assert "5 of 10 points" in sample(*words, "--array", "one").stdout
