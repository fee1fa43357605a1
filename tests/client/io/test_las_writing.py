"""LAS and LAZ: units, old versions, headers that lie."""

import struct

import numpy as np
import pytest
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud, write_subset

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


def test_las_1_0_stays_1_0(tmp_path):
    data = bytearray(cloud_file("simple.las").read_bytes())
    data[24:26] = bytes([1, 0])
    (tmp_path / "old.las").write_bytes(data)
    cloud = read_cloud(tmp_path / "old.las")
    write_subset(tmp_path / "new.las", cloud, ROWS)
    assert str(laspy.read(tmp_path / "new.las").header.version) == "1.0"
    assert np.array_equal(read_cloud(tmp_path / "new.las").points, cloud.points[ROWS])


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
