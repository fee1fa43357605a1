"""Ambiguous files: an error, and options that decide."""

import numpy as np
import pytest

import farpoint
from farpoint.io import read_cloud

FIVE = np.column_stack([np.random.default_rng(3).normal(size=(80, 4)), np.arange(80) % 32]).astype(
    "<f4"
)


def test_columns_in_another_order(tmp_path):
    FIVE.tofile(tmp_path / "scan.bin")
    cloud = read_cloud(tmp_path / "scan.bin", columns=("t", "z", "x", "y", "ring"))
    assert np.array_equal(cloud.points, FIVE[:, [2, 3, 1]])
    assert list(cloud.attributes) == ["t", "ring"]


def with_others(width: int) -> np.ndarray:
    """Coordinates of a scan or a room, then colors from 0 to 255, intensities and labels."""
    random = np.random.default_rng(0)
    points = random.normal(size=(4_000, 3)) * (20, 20, 1)
    others = [random.integers(0, 256, 4_000), random.random(4_000), random.integers(0, 9, 4_000)]
    return np.column_stack([points, *(others * 2)])[:, :width]


ROOM = np.random.default_rng(1).random((4_000, 3)) * (6, 5, 3)
SHADES = np.random.default_rng(2).random((4_000, 3))
BINS = {
    **{f"{width} columns": with_others(width) for width in (3, 5, 6, 7, 8)},
    "S3DIS": np.column_stack([ROOM, SHADES]),
    "Waymo": np.column_stack([with_others(3), SHADES[:, :2], -np.ones(4_000)]),
    "a unit cube": SHADES,
    "intensities to 255": with_others(4),
    "integers": np.arange(4_000, dtype="<i4").view("<f4"),
    "rows without a return": np.full((40, 4), np.nan),
    "a part of a row": np.zeros(5),
}


@pytest.mark.parametrize("case", BINS)
def test_a_bin_with_other_rows_than_kittis_is_refused(tmp_path, case):
    BINS[case].astype("<f4").tofile(tmp_path / "scan.bin")
    with pytest.raises(farpoint.CloudFileError, match="--columns x,y,z,i,ring or x,y,z"):
        read_cloud(tmp_path / "scan.bin")


@pytest.mark.parametrize("names", [("x", "y"), ("x", "y", "z", "x")])
def test_names_without_axes_or_twice(tmp_path, names):
    with pytest.raises(farpoint.InvalidArgumentError, match="columns must"):
        read_cloud(tmp_path / "scan.bin", columns=names)


@pytest.mark.parametrize("shape", [(3, 1000), (3, 4), (6, 900)])
def test_an_array_with_a_row_per_axis(tmp_path, shape):
    array = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(farpoint.CloudFileError, match=r"one row per axis.*--columns x,y,z"):
        read_cloud(tmp_path / "a.npy")
    names = ("x", "y", "z", "a", "b", "c")[: shape[0]]
    cloud = read_cloud(tmp_path / "a.npy", columns=names)
    assert np.array_equal(cloud.points, array[:3].T)


def test_three_points_of_four_columns_by_name(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    cloud = read_cloud(tmp_path / "a.npy", columns=("x", "y", "z", "i"))
    assert cloud.points.tolist() == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]


def test_structured_arrays_with_one_field_for_all_axes(tmp_path):
    records = np.zeros(4, [("xyz", "<f4", 3), ("label", "u1")])
    records["xyz"] = np.arange(12).reshape(4, 3)
    np.save(tmp_path / "a.npy", records)
    cloud = read_cloud(tmp_path / "a.npy")
    assert np.array_equal(cloud.points, records["xyz"])
    assert list(cloud.attributes) == ["label"]


def test_structured_arrays_with_text_for_an_axis(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(4, [("x", "U3"), ("y", "f4"), ("z", "f4")]))
    with pytest.raises(farpoint.CloudFileError, match="the field x must hold one number"):
        read_cloud(tmp_path / "a.npy")


def test_one_of_several_arrays(tmp_path):
    scans = {f"scan{i}": np.random.default_rng(i).normal(size=(5 + i, 3)) for i in range(3)}
    np.savez(tmp_path / "a.npz", **scans)
    with pytest.raises(farpoint.CloudFileError, match="--array NAME"):
        read_cloud(tmp_path / "a.npz")
    assert np.array_equal(read_cloud(tmp_path / "a.npz", array="scan1").points, scans["scan1"])
    with pytest.raises(farpoint.CloudFileError, match="no array named scan9, got scan0"):
        read_cloud(tmp_path / "a.npz", array="scan9")


def test_a_label_with_blanks_and_an_empty_cell(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z,label,w\n1,2,3,a car,0.5\n4,5,6,pole,\n")
    attributes = read_cloud(tmp_path / "a.csv").attributes
    assert attributes["label"].tolist() == ["a car", "pole"]
    assert attributes["w"].tolist() == ["0.5", ""]


def test_names_of_a_text_without_any(tmp_path):
    (tmp_path / "a.txt").write_text("9 3 1 2\n8 6 4 5\n")
    cloud = read_cloud(tmp_path / "a.txt", columns=("t", "z", "x", "y"))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.attributes["t"].tolist() == [9, 8]


def test_a_count_line_is_updated(tmp_path):
    (tmp_path / "a.pts").write_text("3\n1 2 3 -5 9 8 7\n4 5 6 0 1 2 3\n7 8 9 5 4 5 6\n")
    cloud = read_cloud(tmp_path / "a.pts")
    assert list(cloud.attributes) == ["intensity", "red", "green", "blue"]
    farpoint.io.write_subset(tmp_path / "b.pts", cloud, np.array([2, 0]))
    assert (tmp_path / "b.pts").read_text() == "2\n7 8 9 5 4 5 6\n1 2 3 -5 9 8 7\n"
