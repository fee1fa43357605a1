"""Names in a file's header that are not among the attributes are in the notes."""

import re

import numpy as np
import pytest
from tests.client.io.made_files import LAS_KINDS, PLY_TYPES, las_file, pcd_file, ply_file
from tests.support.clouds import cloud_file

from farpoint.io import read_cloud, write_subset
from farpoint.io.cloud import Cloud

POINTS = np.arange(12.0).reshape(4, 3)
E57_FIELDS = {
    **dict.fromkeys(("cartesianX", "cartesianY", "cartesianZ", "timeStamp"), "d"),
    **dict.fromkeys(("nor:normalX", "nor:normalY", "nor:normalZ", "intensity"), "f"),
    **dict.fromkeys(("cartesianInvalidState", "isTimeStampInvalid"), "B"),
    **{"returnIndex": "h", "pulse": "q", "colorRed": "H"},
}


def write_las(path, minor, kind):
    laspy = pytest.importorskip("laspy")
    path.write_bytes(las_file(minor, kind))
    names = {*laspy.PointFormat(kind).dimension_names, "amplitude", "Höhe", "ExtraBytes"}
    has_packets = minor >= 3 and kind in (4, 5, 9, 10)
    return names - {"X", "Y", "Z"} | ({"waveform packets"} if has_packets else set())


def write_ply(path, encoding):
    path.write_bytes(ply_file(encoding, lists=True, others=True))
    return {f"a_{name}" for name in PLY_TYPES} | {"Höhe_uint_double", "camera", "face"}


def write_pcd(path, encoding):
    path.write_bytes(pcd_file(encoding).replace(b"VERSION", b"SENSOR 3.0 - Extended\nVERSION"))
    return {"none", "fF4", "fU8", "Höhe", "VIEWPOINT", "SENSOR 3.0 - Extended"}


def write_npz(path, _):
    arrays = {"label": np.arange(4), "calibration": np.eye(3), "seconds": 0.5}
    np.savez(path, points=POINTS, **arrays)
    return set(arrays)


def write_npy(path, _):
    fields = [*((axis, "f4") for axis in "xyz"), ("ring", "u2"), ("name", "U3"), ("hist", "f4", 5)]
    np.save(path, np.zeros(4, fields))
    return {"ring", "name", "hist"}


def write_csv(path, _):
    path.write_text("id,x,y,z,,Höhe\n" + "a,1,2,3,4,5\n" * 4, "utf-8")
    return {"id", "column_4", "Höhe"}


def write_e57(path, turned):
    pye57 = pytest.importorskip("pye57")
    lib = pye57.libe57
    with pye57.E57(str(path), mode="w") as file:
        image = file.image_file
        image.extensionsAdd("nor", "http://www.libe57.org/E57_NOR_surface_normals.txt")
        scan, prototype = lib.StructureNode(image), lib.StructureNode(image)
        scan.set("guid", lib.StringNode(image, "{a}"))
        buffers, columns = lib.VectorSourceDestBuffer(), []
        for i, (name, kind) in enumerate(E57_FIELDS.items()):
            dtype = np.dtype(kind)
            if dtype.kind == "f":
                precision = lib.E57_SINGLE if kind == "f" else lib.E57_DOUBLE
                node = lib.FloatNode(image, 0.0, precision)
            else:
                limits = np.iinfo(dtype)
                node = lib.IntegerNode(image, 0, int(limits.min), int(limits.max))
            prototype.set(name, node)
            columns.append((np.arange(4) * 0 if "State" in name else np.arange(4) + i).astype(kind))
            buffers.append(lib.SourceDestBuffer(image, name, columns[-1], 4, True, True))
        if turned:  # a quarter around z
            pose, rotation = lib.StructureNode(image), lib.StructureNode(image)
            for axis, value in zip("wxyz", (0.5**0.5, 0, 0, 0.5**0.5), strict=True):
                rotation.set(axis, lib.FloatNode(image, value))
            pose.set("rotation", rotation)
            scan.set("pose", pose)
        points = lib.CompressedVectorNode(image, prototype, lib.VectorNode(image, True))
        scan.set("points", points)
        file.data3d.append(scan)
        writer = points.writer(buffers)
        writer.write(4)
        writer.close()
    return set(E57_FIELDS) - {"cartesianX", "cartesianY", "cartesianZ", "colorRed"} | {"red"}


CASES = {
    **{f"LAS 1.{minor} {kind}.las": (write_las, minor, kind) for minor, kind in LAS_KINDS},
    **{f"{e}.ply": (write_ply, e) for e in ("ascii", "binary_little_endian", "binary_big_endian")},
    **{f"{e}.pcd": (write_pcd, e) for e in ("ascii", "binary", "binary_compressed")},
    "a.npz": (write_npz, None),
    "a.npy": (write_npy, None),
    "a.csv": (write_csv, None),
    "a.e57": (write_e57, None),
}


def unsaid(names, cloud, notes):
    """The names that are neither attributes nor words of the notes."""
    said = "\n".join(notes)
    return {
        name
        for name in names - set(cloud.attributes)
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)
    }


@pytest.mark.parametrize("case", CASES)
def test_every_name_is_an_attribute_or_in_the_notes(tmp_path, case):
    write, *arguments = CASES[case]
    names = write(tmp_path / case, *arguments)
    cloud = read_cloud(tmp_path / case)
    assert not unsaid(names, cloud, cloud.notes)


@pytest.mark.parametrize("suffix", [".ply", ".pcd", ".npz", ".npy", ".csv", ".pts"])
@pytest.mark.parametrize(
    "case", ["LAS 1.4 10.las", "ascii.ply", "binary_compressed.pcd", "a.npz", "a.e57"]
)
def test_every_name_is_in_the_written_file_or_in_the_notes(tmp_path, case, suffix):
    write, *arguments = CASES[case]
    names = write(tmp_path / case, *arguments)
    out = tmp_path / f"out{suffix}"
    cloud = read_cloud(tmp_path / case)
    notes = write_subset(out, cloud, np.array([2, 0]))
    if not case.endswith(suffix):
        written = read_cloud(out)
        parts = {re.sub(r"_\d+$", "", name) for name in written.attributes}
        assert not unsaid(names - parts, written, notes)
        assert np.array_equal(written.points, cloud.points[[2, 0]])


def test_e57_keeps_types_and_turns_normals(tmp_path):
    write_e57(tmp_path / "a.e57", None)
    attributes = read_cloud(tmp_path / "a.e57").attributes
    kinds = {name: attributes[name].dtype.char for name in ("returnIndex", "red", "timeStamp")}
    assert kinds == {"returnIndex": "h", "red": "H", "timeStamp": "d"}
    assert attributes["pulse"].tolist() == [11, 12, 13, 14]
    write_e57(tmp_path / "b.e57", True)
    turned = read_cloud(tmp_path / "b.e57")
    assert np.allclose(turned.points[:, :2], [[-1, 0], [-2, 1], [-3, 2], [-4, 3]])
    assert np.allclose(turned.attributes["nor:normalX"], -attributes["nor:normalY"])
    assert np.allclose(turned.attributes["nor:normalY"], attributes["nor:normalX"])
    assert any("the poses of 1 scans" in note for note in turned.notes)


def test_waveforms_in_another_file_are_left_out(tmp_path):
    cloud = read_cloud(cloud_file("fullwave_pf10.laz"))
    told = ("left out: the waveform packets in another file",)
    assert cloud.notes == told
    assert write_subset(tmp_path / "a.las", cloud, np.arange(9)) == told
    assert not (tmp_path / "a.las").read_bytes()[6] & 6
    assert read_cloud(tmp_path / "a.las").notes == ()


ODD = {
    "label": np.array(["a car", "b", "", "c"]),
    "big": np.array([2**53 + 1, 1, 2, -(2**62)]),
    "unsigned": np.array([2**64 - 1, 0, 1, 2], np.uint64),
    "when": np.array(["2021-05-06"] * 4, "M8[D]"),
    "x": np.arange(4, dtype=np.uint8),
    "a b": np.arange(4, dtype=np.int16),
    "a_b": np.arange(8, dtype=np.float32).reshape(4, 2),
    "flag": np.array([True, False, True, True]),
}
LOST = {
    ".ply": "label, big, unsigned, when",
    ".pcd": "label, when",
    ".xyz": "label",
    ".csv": "",
    ".npz": "",
    ".pts": "label, big, unsigned, when, x, a_b, flag",
}


@pytest.mark.parametrize("suffix", LOST)
def test_what_a_format_cannot_hold_is_left_out_with_a_note(tmp_path, suffix):
    out = tmp_path / f"a{suffix}"
    notes = write_subset(out, Cloud(POINTS, ODD), np.arange(4))
    assert notes == ((f"left out: {LOST[suffix]}",) if LOST[suffix] else ())
    written = read_cloud(out)
    assert np.array_equal(written.points, POINTS)
    if suffix in (".pcd", ".csv"):
        for name in ("big", "unsigned"):
            assert written.attributes[name].tolist() == ODD[name].tolist()
    if suffix not in (".pts", ".xyz"):
        assert [*written.attributes["x" if suffix == ".npz" else "x_2"]] == [0, 1, 2, 3]
        assert written.attributes["flag"].tolist() == [1, 0, 1, 1]
    if suffix == ".csv":
        assert written.attributes["label"].tolist() == ODD["label"].tolist()


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("nx", "ny", "nz"), ()),
        (("red", "green", "blue", "ring"), ("red", "green", "blue")),
        (("intensity", "nx"), ("intensity",)),
        (("blue", "intensity", "red", "green"), ("intensity", "red", "green", "blue")),
        (("red", "green"), ()),
    ],
)
def test_a_pts_has_intensity_and_color_alone(tmp_path, names, kept):
    cloud = Cloud(POINTS, {name: np.arange(4) + i for i, name in enumerate(names)})
    notes = write_subset(tmp_path / "a.pts", cloud, np.arange(4))
    written = read_cloud(tmp_path / "a.pts").attributes
    assert tuple(written) == kept
    assert all(written[name].tolist() == cloud.attributes[name].tolist() for name in kept)
    lost = [name for name in names if name not in kept]
    write_subset(tmp_path / "a.csv", cloud, np.arange(4))
    again = read_cloud(tmp_path / "a.csv")
    assert write_subset(tmp_path / "b.pts", again, np.arange(4)) == notes
    assert tuple(read_cloud(tmp_path / "b.pts").attributes) == kept
    assert notes == ((f"left out: {', '.join(lost)}",) if lost else ())
