"""Ambiguous files, and cells that a column cannot hold: an error, and options that decide."""

import warnings

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


def test_structured_arrays_with_one_field_for_all_axes(tmp_path):
    records = np.zeros(4, [("xyz", "<f4", 3), ("label", "u1")])
    records["xyz"] = np.arange(12).reshape(4, 3)
    np.save(tmp_path / "a.npy", records)
    cloud = read_cloud(tmp_path / "a.npy")
    assert np.array_equal(cloud.points, records["xyz"])
    assert list(cloud.attributes) == ["label"]


def test_one_of_several_arrays(tmp_path):
    scans = {f"scan{i}": np.random.default_rng(i).normal(size=(5 + i, 3)) for i in range(3)}
    np.savez(tmp_path / "a.npz", **scans)
    with pytest.raises(farpoint.CloudFileError, match="--array NAME"):
        read_cloud(tmp_path / "a.npz")
    assert np.array_equal(read_cloud(tmp_path / "a.npz", array="scan1").points, scans["scan1"])
    with pytest.raises(farpoint.CloudFileError, match="no array named scan9, got scan0"):
        read_cloud(tmp_path / "a.npz", array="scan9")


INTEGERS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
PLY_NAMES = {
    "i1": "char",
    "u1": "uint8",
    "i2": "short",
    "u2": "ushort",
    "i4": "int32",
    "u4": "uint",
}
PLY_NAMES |= {"i8": "int64", "u8": "uint64", "f4": "float", "f8": "double"}


def ply(kind, cell):
    head = "ply\nformat ascii 1.0\nelement vertex 3\n"
    axes = "".join(f"property double {axis}\n" for axis in "xyz")
    rows = f"1 2 3 1\n4 5 6 {cell}\n7 8 9 1\n"
    return f"{head}{axes}property {PLY_NAMES[kind]} v\nend_header\n{rows}"


def ply_list(kind, cell):
    """Two lists before the coordinates, of which v has the cell."""
    head, _, _ = ply(kind, cell).partition("property")
    lists = f"property list uchar int w\nproperty list char {PLY_NAMES[kind]} v\n"
    axes = "".join(f"property double {axis}\n" for axis in "xyz")
    return f"{head}{lists}{axes}end_header\n2 7 7 1 1 1 2 3\n0 2 1 {cell} 4 5 6\n0 0 7 8 9\n"


def pcd(kind, cell):
    return (
        f"FIELDS x y z v\nSIZE 8 8 8 {kind[1]}\nTYPE F F F {kind[0].upper()}\n"
        f"WIDTH 3\nHEIGHT 1\nPOINTS 3\nDATA ascii\n1 2 3 1\n4 5 6 {cell}\n7 8 9 1\n"
    )


FORMATS = {"a.ply": ply, "list.ply": ply_list, "a.pcd": pcd}


def read(folder, name, kind, cell):
    (folder / name).write_text(FORMATS[name](kind, cell))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_cloud(folder / name)


def refused_by(kind):
    limits = np.iinfo(kind)
    beyond = [limits.max + 1, limits.min - 1, limits.max * 3, 10**30]
    return [*map(str, beyond), "0.5", "1e40", "nan", "-inf", "two", "1_0", "0x1"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", INTEGERS)
def test_cells_that_an_integer_type_does_not_hold(tmp_path, name, kind):
    for cell in refused_by(kind):
        with pytest.raises(farpoint.CloudFileError, match="of point 1") as raised:
            read(tmp_path, name, kind, cell)
        assert "v" in str(raised.value).replace(",", " ").split()
        assert cell in str(raised.value)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("kind", "cell"), [("f4", "1e39"), ("f4", "-4e38"), ("f8", "1e400")])
def test_numbers_too_large_for_a_float_type(tmp_path, name, kind, cell):
    with pytest.raises(farpoint.CloudFileError, match=f"v of point 1 is {cell}, expected float"):
        read(tmp_path, name, kind, cell)


@pytest.mark.parametrize("name", ["a.ply", "a.pcd"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_cells_at_the_limits_of_a_type_are_exact(tmp_path, name, kind):
    limits = np.iinfo(kind)
    for cell in (limits.max, limits.min, "1.0", "1e1", "+7", "007"):
        values = read(tmp_path, name, kind, cell).attributes["v"]
        assert values.dtype == kind
        assert values[1] == (cell if isinstance(cell, int) else int(float(cell)))


@pytest.mark.parametrize("name", ["a.ply", "a.pcd"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_infinity_that_is_spelled_so_is_read(tmp_path, name, kind):
    for cell in ("inf", "-Infinity", "nan"):
        values = read(tmp_path, name, kind, cell).attributes["v"]
        assert values.dtype == kind
        assert repr(float(values[1])) == repr(float(cell))


def test_whole_numbers_of_a_csv_that_float64_does_not_hold(tmp_path):
    big = [1620304801123456789, -(2**53) - 1, 3]
    rows = "".join(f"1,2,3,{n},{abs(n) + 2**63}\n" for n in big)
    (tmp_path / "a.csv").write_text(f"x,y,z,t,u\n{rows}")
    attributes = read_cloud(tmp_path / "a.csv").attributes
    assert attributes["t"].tolist() == big
    assert attributes["u"].tolist() == [abs(n) + 2**63 for n in big]
