"""Vertices of meshes; notes say what is left out."""

import struct

import numpy as np
import pytest

import farpoint
from farpoint.io import read_cloud
from farpoint.io.formats import pcd

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
    "plain": PLY_HEAD.format(XYZ, LIST) + lines(POINTS) + FACE_LINES,
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
    packed = pcd.compress(plain)
    head = b"FIELDS x y _ z\nSIZE 4 4 1 4\nTYPE F F U F\nCOUNT 1 1 4 1\nPOINTS 6\n"
    sizes = struct.pack("<2I", len(packed), len(plain))
    cloud = read(tmp_path / "a.pcd", head + b"DATA binary_compressed\n" + sizes + packed)
    assert np.array_equal(cloud.points, POINTS)
    assert not cloud.attributes


STL_ASCII = "solid a\n{}endsolid a\n"
FACET = " facet normal 0 0 1\n  outer loop\n{}  endloop\n endfacet\n"


def test_stl_in_both_encodings(tmp_path):
    facets = "".join(
        FACET.format("".join(f"   vertex {lines([POINTS[i]])}" for i in face)) for face in FACES
    )
    triangles = b"".join(bytes(12) + POINTS[face].tobytes() + bytes(2) for face in FACES)
    binary = b"solid, and yet binary".ljust(80) + struct.pack("<I", 3) + triangles
    for content in (STL_ASCII.format(facets), binary):
        cloud = read(tmp_path / "a.stl", content)
        assert np.array_equal(cloud.points.astype(np.float32), POINTS)  # each corner once
        assert cloud.notes == ("left out: 3 triangles",)
    with pytest.raises(farpoint.CloudFileError, match="3 triangles are 234 bytes, got 184"):
        read(tmp_path / "a.stl", b"x" + binary[1:-50])
    with pytest.raises(farpoint.CloudFileError, match="cut short"):
        read(tmp_path / "a.stl", STL_ASCII.format(facets)[:-20])


OFFS = {
    "plain": "OFF\n6 3 0\n" + lines(POINTS) + FACE_LINES,
    "comments": "OFF # of what\n\n6 3 0\n" + lines(POINTS).replace("\n", " # v\n") + FACE_LINES,
    "ModelNet": "OFF6 3 0\n" + lines(POINTS) + FACE_LINES,
}


@pytest.mark.parametrize("case", OFFS)
def test_off(tmp_path, case):
    cloud = read(tmp_path / "a.off", OFFS[case])
    assert np.array_equal(cloud.points.astype(np.float32), POINTS)
    assert cloud.notes == ("left out: 3 faces",)


def test_off_with_colors_and_an_off_cut_short(tmp_path):
    rows = "".join(f"{line} 10 20 {i} 255\n" for i, line in enumerate(lines(POINTS).splitlines()))
    cloud = read(tmp_path / "a.off", "COFF\n6 0 0\n" + rows)
    assert cloud.attributes["rgb"].tolist() == [[10, 20, i] for i in range(6)]
    with pytest.raises(farpoint.CloudFileError, match="6 vertices and 3 faces announced"):
        read(tmp_path / "a.off", OFFS["plain"][:-12])
