"""A damaged file, or a header that lies, is an error that names the file, never a smaller cloud."""

import struct

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


laspy = pytest.importorskip("laspy")

ROWS = np.array([700, 3, 999, 0, 512])


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("autzen_trim_part.laz", "foot"),
        ("epsg_4326_part.las", "degree"),
        ("fullwave_pf10.laz", "metre"),
        ("image_lattice_part.las", "degree"),
        ("simple.las", None),
    ],
)
def test_units(name, unit):
    assert read_cloud(cloud_file(name)).unit == unit


def test_a_name_of_copc_is_refused(tmp_path):
    with pytest.raises(farpoint.CloudFileError, match="COPC is read but not written"):
        write_subset(tmp_path / "a.copc.laz", read_cloud(cloud_file("simple.las")), ROWS)
    assert list(tmp_path.iterdir()) == []


def patched(name, *changes):
    data = bytearray(cloud_file(name).read_bytes())
    for at, form, value in changes:
        struct.pack_into(form, data, at, value)
    return bytes(data)


FEET = "plane_state_plane_feet.laz"
LIES = {
    "records": ("simple.las", [(100, "<I", 250_000_000)], "250000000 records announced"),
    "points": ("simple.las", [(107, "<I", 4_000_000_000)], "4000000000 points of 34 bytes"),
    "begin": ("simple.las", [(96, "<I", 1 << 31)], "points begin at 2147483648"),
    "compressed points": (FEET, [(107, "<I", 4_000_000_000)], "announced in . chunks"),
    "position of chunks": (FEET, [(878, "<q", 59_337)], "at 59337, the file has 59344"),
    "chunks": (FEET, [(59_334, "<I", 1 << 31)], "2147483648 chunks announced"),
    "extended": (
        "image_lattice_part.las",
        [(243, "<I", 1 << 30), (235, "<Q", 99)],
        "extended records",
    ),
}


@pytest.mark.parametrize("case", LIES)
def test_a_header_that_lies_is_found_before_anything_is_read(tmp_path, case):
    name, changes, message = LIES[case]
    (tmp_path / f"a{name[-4:]}").write_bytes(patched(name, *changes))
    with pytest.raises(farpoint.CloudFileError, match=message):
        read_cloud(tmp_path / f"a{name[-4:]}")


POINTS = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)


def read(path, content: bytes | str):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_cloud(path)


PLY_HEAD = "ply\nformat ascii 1.0\nelement vertex 6\n{}element face 3\n{}end_header\n"

AXES = "".join(f"property float {axis}\n" for axis in "xyz")
LIST = "property list uchar int vertex_indices\n"


def test_a_ply_that_announces_more_than_it_holds(tmp_path):
    head = PLY_HEAD.format(AXES, LIST).replace("ascii", "binary_little_endian")
    with pytest.raises(farpoint.CloudFileError, match="9999999999 of vertex announced"):
        read(tmp_path / "a.ply", head.replace("vertex 6", "vertex 9999999999"))


def test_pcd_padded_to_a_page(tmp_path):
    head = b"FIELDS x y z\nPOINTS 6\nDATA binary\n"
    cloud = read(tmp_path / "a.pcd", head + POINTS.tobytes() + bytes(4096))
    assert np.array_equal(cloud.points, POINTS)


def test_compressed_pcd_without_the_padding_that_its_header_names(tmp_path):
    plain = POINTS.T.tobytes()
    parts = [plain[at : at + 32] for at in range(0, len(plain), 32)]
    packed = b"".join(bytes([len(part) - 1]) + part for part in parts)  # nothing repeats
    head = b"FIELDS x y _ z\nSIZE 4 4 1 4\nTYPE F F U F\nCOUNT 1 1 4 1\nPOINTS 6\n"
    sizes = struct.pack("<2I", len(packed), len(plain))
    cloud = read(tmp_path / "a.pcd", head + b"DATA binary_compressed\n" + sizes + packed)
    assert np.array_equal(cloud.points, POINTS)
    assert not cloud.attributes
