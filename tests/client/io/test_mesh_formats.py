"""PLY with faces, PCD with padding; notes say what is left out."""

import struct

import numpy as np
import pytest

import farpoint
from farpoint.io import read_cloud

POINTS = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)
FACES = np.array([[0, 1, 2], [3, 4, 5], [0, 2, 4]])


def lines(rows) -> str:
    return "".join(" ".join(map(repr, map(float, row))) + "\n" for row in rows)


def read(path, content: bytes | str):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_cloud(path)


PLY_HEAD = "ply\nformat ascii 1.0\nelement vertex 6\n{}element face 3\n{}end_header\n"
XYZ = "".join(f"property float {axis}\n" for axis in "xyz")
LIST = "property list uchar int vertex_indices\n"
FACE_LINES = "".join("3 " + " ".join(map(str, face)) + "\n" for face in FACES)

PLYS = {
    "blank last lines": PLY_HEAD.format(XYZ, LIST) + lines(POINTS) + FACE_LINES + "\n  \n",
    "blanks in the header": PLY_HEAD.format(XYZ, LIST).replace("\n", " \n")
    + lines(POINTS)
    + FACE_LINES,
    "faces with more than they announce": PLY_HEAD.format(XYZ, LIST)
    + lines(POINTS)
    + FACE_LINES.replace("\n", " 1 1 1\n"),
    "DOS": (PLY_HEAD.format(XYZ, LIST) + lines(POINTS) + FACE_LINES).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("case", PLYS)
def test_ascii_ply(tmp_path, case):
    cloud = read(tmp_path / "a.ply", PLYS[case])
    assert np.array_equal(cloud.points, POINTS)
    assert cloud.points.dtype == np.float32
    assert cloud.notes == ("left out: 3 of the element face",)


def test_ascii_ply_with_a_list_for_each_vertex(tmp_path):
    head = PLY_HEAD.format(XYZ + "property list uchar int near\n", LIST)
    rows = "".join(line + " 2 7 8\n" for line in lines(POINTS).splitlines())
    cloud = read(tmp_path / "a.ply", head + rows + FACE_LINES)
    assert np.array_equal(cloud.points, POINTS)


def test_binary_ply_with_blanks_in_the_header(tmp_path):
    head = PLY_HEAD.format(XYZ, LIST).replace("ascii", "binary_little_endian").replace("\n", " \n")
    faces = b"".join(struct.pack("<B3i", 3, *face) for face in FACES.tolist())
    cloud = read(tmp_path / "a.ply", head.encode() + POINTS.tobytes() + faces)
    assert np.array_equal(cloud.points, POINTS)


def test_a_ply_that_announces_more_than_it_holds(tmp_path):
    head = PLY_HEAD.format(XYZ, LIST).replace("ascii", "binary_little_endian")
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
