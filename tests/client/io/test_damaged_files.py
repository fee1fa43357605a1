"""An invalid file is an error that names it, never a smaller cloud."""

import numpy as np
import pytest
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud, write_subset
from farpoint.io.formats import pcd

WHOLE = [
    "street_map_part.ply",
    "cad_part.ply",
    "milk.pcd",
    "autzen-utm.pcd",
    "lamppost.pcd",
    "simple.las",
    "plane_state_plane_feet.laz",
    "street_organized_part.npy",
    "ten_scans_part.npz",
    "street_kitti_part.bin",
]


def damaged(tmp_path, name, change):
    source = cloud_file(name)
    path = tmp_path / f"damaged{source.suffix}"
    path.write_bytes(change(source.read_bytes()))
    return path


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("part", [0.001, 0.5, 0.9])
def test_a_file_cut_short(tmp_path, name, part):
    path = damaged(tmp_path, name, lambda data: data[: int(len(data) * part) + 1])
    with pytest.raises(farpoint.CloudFileError) as raised:
        read_cloud(path)
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize("name", [n for n in WHOLE if not n.endswith((".las", ".laz", ".npz"))])
def test_bytes_left_over(tmp_path, name):
    path = damaged(tmp_path, name, lambda data: data + b"1 2 3\n")
    with pytest.raises(farpoint.CloudFileError):
        read_cloud(path)


def test_no_points_in_a_valid_file():
    with pytest.raises(farpoint.CloudFileError, match="0 points"):
        read_cloud(cloud_file("no-points.las"))


CONTENTS = {
    "a.npy": (b"", "No data left"),
    "b.npy": (b"\x93NUMPY but not really", "a.npy|b.npy"),
    "a.csv": (b"", "0 points"),
    "b.csv": (b"x,y,z\n", "0 points"),
    "c.csv": (b"1,2\n3,4\n", "three columns or more, got 2"),
    "d.csv": (b"1,2,3\n3,4\n", "point 1 has 2 columns, the first one 3"),
    "e.csv": (b"1,2,3\n3,four,5\n", "the column y must hold numbers"),
    "f.csv": (b"lon,lat,h\n1,2,3\n", "no x, y, z among the fields lon, lat, h"),
    "g.csv": (b"x,y,z\n1,2,3,4\n", "3 names for 4 columns"),
    "h.csv": (b"1,2,3\n4,,6\n", "column y must hold numbers, got '' at point 1"),
    "i.csv": (b"x,y,z\n1,2,3\n4,5,6,\n", "point 1 has 4 columns"),
    "a.xyz": (b"3\n1 2 3\n4 5 6\n", "3 points announced, 2 found"),
    "b.xyz": (b"1 2 3\n4 5 6 7\n", "point 1 has 4 columns, the first one 3"),
    "c.xyz": (b"1 2 3\n1_0 5 6\n", "must hold numbers, got '1_0'"),
    "d.xyz": (b"\x001 2 3\n", "expected text in UTF-8"),
    "a.bin": (bytes(40), "rows of 4 float32, got 40 bytes: name the columns"),
    "b.bin": (b"", "0 points"),
    "a.ply": (b"ply\nformat ascii 1.0\nelement face 0\nend_header\n", "no element named vertex"),
    "b.ply": (b"solid", "b.ply"),
    "a.pcd": (b"FIELDS x y z\n", "no DATA line"),
    "b.pcd": (b"FIELDS x y\nPOINTS 1\nDATA ascii\n1 2\n", "no z among the fields x, y"),
    "c.pcd": (b"FIELDS x y z\nPOINTS 1\nDATA packed\n", "DATA is 'packed', expected ascii"),
    "d.pcd": (b"FIELDS x y z\nPOINTS 1\nDATA ascii\n1 2\n", "point 0 has 2 values, expected 3"),
    "e.pcd": (b"FIELDS x y z\nWIDTH 2\nPOINTS 1\nDATA ascii\n1 2 3\n", "WIDTH times HEIGHT is 2"),
    "f.pcd": (b"FIELDS x y z\nTYPE F F\nPOINTS 1\nDATA ascii\n", "3 FIELDS.* 2 TYPE"),
    "g.pcd": (b"FIELDS x y z\nTYPE C F F\nPOINTS 1\nDATA ascii\n1 2 3\n", "type C, expected F"),
    "a.las": (b"LASF", "a.las"),
    "a.abc": (b"", "unknown suffix '.abc', expected .npy"),
    "a.asc": (b"1 2 3\n", r"unknown suffix '.asc'.* --format .xyz \(in Python format=\)"),
    "suffixless": (b"", "unknown suffix ''"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents(tmp_path, name):
    content, message = CONTENTS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(farpoint.CloudFileError, match=message) as raised:
        read_cloud(tmp_path / name)
    assert raised.value.path == tmp_path / name


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    with pytest.raises(farpoint.CloudFileError, match="or a rosbag2 folder"):
        read_cloud(tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file") as raised:
        read_cloud(tmp_path / "absent.ply")
    assert isinstance(raised.value, farpoint.CloudFileError)


@pytest.mark.parametrize("shape", [(3,), (4, 2), (2, 2, 2, 3)])
def test_arrays_of_other_shapes(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape))
    with pytest.raises(farpoint.CloudFileError, match="expected shape"):
        read_cloud(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xe0", "cut short"),
        (b"\x20\x09", "before its own start"),
        (b"\x00a", "gives 1 bytes, expected 6"),
    ],
)
def test_damaged_compression(data, message):
    with pytest.raises(ValueError, match=message):
        pcd.decompress(data, 6)


def test_repeats_may_overlap():
    # Two literal bytes, then 14 bytes (7 + 5 + 2) from two bytes back.
    assert pcd.decompress(b"\x01ab\xe0\x05\x01", 16) == b"ab" * 8


def test_a_format_that_cannot_hold_the_cloud(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z,label\n1,2,3,car\n")
    cloud = read_cloud(tmp_path / "a.csv")
    for name, message in {
        "b.bin": "only a cloud read from .bin",
        "b.abc": "unknown suffix",
        "absent/b.csv": "No such file",
    }.items():
        with pytest.raises(farpoint.CloudFileError, match=message):
            write_subset(tmp_path / name, cloud, np.array([0]))
