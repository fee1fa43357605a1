"""Ambiguous files: an error, and options that decide."""

import numpy as np
import pytest
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud

FIVE = np.column_stack([np.random.default_rng(3).normal(size=(80, 4)), np.arange(80) % 32]).astype(
    "<f4"
)


def test_values_that_show_no_width_are_refused(tmp_path):
    np.random.default_rng(0).random((10_000, 3), np.float32).tofile(tmp_path / "cube.bin")
    with pytest.raises(farpoint.CloudFileError, match="are rows of 3, 4, 5, 6, 8 float32: name"):
        read_cloud(tmp_path / "cube.bin")


def test_columns_in_another_order(tmp_path):
    FIVE.tofile(tmp_path / "scan.bin")
    cloud = read_cloud(tmp_path / "scan.bin", columns=("t", "z", "x", "y", "ring"))
    assert np.array_equal(cloud.points, FIVE[:, [2, 3, 1]])
    assert list(cloud.attributes) == ["t", "ring"]


def columns(width: int, seed: int = 0) -> np.ndarray:
    """A scan's columns, three of coordinates, then colors from 0 to 255, 0 to 1 and labels."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(4_000, 3)) * (20, 20, 1)
    others = [random.integers(0, 256, 4_000), random.random(4_000), random.integers(0, 9, 4_000)]
    return np.column_stack([points, *(others * 2)])[:, :width].astype("<f4")


@pytest.mark.parametrize("width", range(3, 9))
def test_a_bin_of_any_width_is_read_as_such_or_refused(tmp_path, width):
    rows = columns(width)
    rows.tofile(tmp_path / "scan.bin")
    if width <= 4:
        assert np.array_equal(read_cloud(tmp_path / "scan.bin").points, rows[:, :3])
        return
    with pytest.raises(farpoint.CloudFileError, match=f"rows of {width} .*--columns x,y,z,"):
        read_cloud(tmp_path / "scan.bin")
    names = ("x", "y", "z", "a", "b", "c", "d", "e")[:width]
    assert np.array_equal(read_cloud(tmp_path / "scan.bin", columns=names).points, rows[:, :3])


def six_columns(dataset: str) -> np.ndarray:
    """Rows as mmdetection3d stores them, in the order of the scan."""
    if dataset == "Waymo":  # intensity and elongation, and whether a zone has no labels
        scan = read_cloud(cloud_file("street_kitti_part.bin"))
        intensity = np.tanh(scan.attributes["intensity"])
        return np.column_stack([scan.points, intensity, intensity / 9, -np.ones(len(scan))])
    room = read_cloud(cloud_file("plane_strip_rgb_normals.pcd"))
    points, colors = room.points, room.attributes["rgb"]
    if dataset == "S3DIS":
        return np.column_stack([points - points.min(axis=0), colors / 255])
    return np.column_stack([points, colors / 255 if dataset == "SUN RGB-D" else colors])


@pytest.mark.parametrize("dataset", ["ScanNet", "S3DIS", "SUN RGB-D", "Waymo"])
def test_six_columns_are_not_taken_for_three_or_four(tmp_path, dataset):
    six_columns(dataset).astype("<f4").tofile(tmp_path / "room.bin")
    with pytest.raises(farpoint.CloudFileError, match=r"rows of 6 .*--columns x,y,z,r,g,b"):
        read_cloud(tmp_path / "room.bin")


@pytest.mark.parametrize("kind", ["glTF", "<i4", "<i8", "u1"])
def test_a_buffer_of_gltf_or_a_mask_of_labels_is_no_cloud(tmp_path, kind):
    random = np.random.default_rng(0)
    if kind == "glTF":
        corners = random.integers(0, 500, 1_500).astype("<u2").tobytes()
        data = random.normal(size=(500, 3)).astype("<f4").tobytes() + corners
    else:
        data = random.integers(0, 40, 4_096).astype(kind).tobytes()
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(farpoint.CloudFileError, match="values are no coordinates"):
        read_cloud(tmp_path / "a.bin")


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


def test_a_count_line_is_written_anew(tmp_path):
    (tmp_path / "a.pts").write_text("3\n1 2 3 -5 9 8 7\n4 5 6 0 1 2 3\n7 8 9 5 4 5 6\n")
    cloud = read_cloud(tmp_path / "a.pts")
    assert list(cloud.attributes) == ["intensity", "red", "green", "blue"]
    farpoint.io.write_subset(tmp_path / "b.pts", cloud, np.array([2, 0]))
    assert (tmp_path / "b.pts").read_text() == "2\n7 8 9 5 4 5 6\n1 2 3 -5 9 8 7\n"
