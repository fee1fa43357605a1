"""A cell of text that its column's type cannot hold is an error that names column and row."""

import warnings

import numpy as np
import pytest

import farpoint
from farpoint.io import read_cloud

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
