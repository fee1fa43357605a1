"""Spellings of text files and layouts of numpy files that people have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farpoint.io import read_cloud
from farpoint.io.numbers import parse_table

TEXTS = {
    "spaces": "1 2 3\n4 5 6\n",
    "tabs and runs of spaces": "  1\t2   3 \r\n4 5\t\t6\r\n",
    "commas": "1,2,3\n4,5,6",
    "semicolons": "1;2;3\n4; 5 ;6",
    "names": "X,Y,Z\n1,2,3\n4,5,6\n",
    "quoted names": '"x" "y" "z"\n1 2 3\n4 5 6\n',
    "names out of order": "z,x,y\n3,1,2\n6,4,5\n",
    "comments and blank lines": "# made by hand\n\n1 2 3\n\n# between\n4 5 6\n\n",
    "names in a comment": "//Z X Y\n3 1 2\n6 4 5\n",
    "exponents": "1e0 20e-1 3.0\n4 .5e1 +6\n",
    "a byte order mark": "\ufeff1 2 3\n4 5 6\n",
    "a line with the count": "2\n1 2 3\n4 5 6\n",
    "a count under a comment": "# scanner\n2\n1 2 3\n4 5 6\n",
    "decimal commas behind semicolons": "1,0;2,0;3,0\n4;5,00;6\n",
    "decimal commas between blanks": "1,0 2,0\t3,0\n4,0 5,00 6,0\n",
    "decimal commas under names": "x;y;z\n1,0;2,0;3,0\n4,0;5,0;6,0\n",
    "easting and northing": "Northing,Easting,Elevation\n2,1,3\n5,4,6\n",
    "names with units": "X [m];Y [m];Z [m]\n1;2;3\n4;5;6\n",
    "ParaView": '"Points:0","Points:1","Points:2"\n1,2,3\n4,5,6\n',
    "commas and blanks": "1, 2, 3\n4,  5,6\n",
    "old line ends": "1 2 3\r4 5 6\r",
}


@pytest.mark.parametrize("case", TEXTS)
def test_text(tmp_path, case):
    path = tmp_path / "cloud.txt"
    path.write_text(TEXTS[case], "utf-8", newline="")
    cloud = read_cloud(path)
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.points.dtype == np.float64
    assert cloud.attributes == {}


def test_further_columns_are_numbers_or_words(tmp_path):
    path = tmp_path / "cloud.csv"
    path.write_text("x,y,z,label, weight\n1,2,3,car,0.5\n4,5,6,pole,nan\n")
    attributes = read_cloud(path).attributes
    assert attributes["label"].tolist() == ["car", "pole"]
    assert attributes["weight"][0] == 0.5
    assert np.isnan(attributes["weight"][1])


def test_columns_without_names(tmp_path):
    (tmp_path / "cloud.xyz").write_text("1 2 3 7\n4 5 6 8\n")
    assert read_cloud(tmp_path / "cloud.xyz").attributes["column_3"].tolist() == [7, 8]


ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
RECORDS = np.zeros(6, [("intensity", "u2"), ("Z", "f8"), ("Y", "f8"), ("X", "f8")])
RECORDS["X"], RECORDS["Y"], RECORDS["Z"] = ROWS[:, 0], ROWS[:, 1], ROWS[:, 2]

ARRAYS = {
    "rows": ROWS,
    "organized": ROWS.reshape(2, 3, 4),
    "three columns": ROWS[:, :3],
    "big-endian": ROWS.astype(">f8"),
    "fortran": np.asfortranarray(ROWS),
    "records": RECORDS,
    "organized records": RECORDS.reshape(2, 3),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_npy(tmp_path, case):
    np.save(tmp_path / "cloud.npy", ARRAYS[case])
    cloud = read_cloud(tmp_path / "cloud.npy")
    assert np.array_equal(cloud.points, ROWS[:, :3])
    assert len(cloud.attributes) == ("three" not in case)


def test_npz_with_attributes(tmp_path):
    np.savez(tmp_path / "a.npz", other=np.arange(6), points=ROWS[:, :3], note="hello")
    cloud = read_cloud(tmp_path / "a.npz")
    assert np.array_equal(cloud.points, ROWS[:, :3])
    assert list(cloud.attributes) == ["other"]


def test_npz_with_a_single_array(tmp_path):
    np.savez(tmp_path / "a.npz", whatever=ROWS.reshape(2, 3, 4))
    assert np.array_equal(read_cloud(tmp_path / "a.npz").points, ROWS[:, :3])


def test_five_columns_of_nuscenes(tmp_path):
    rows = np.arange(20, dtype="<f4").reshape(4, 5)
    rows.tofile(tmp_path / "scan.pcd.bin")
    cloud = read_cloud(tmp_path / "scan.pcd.bin")
    assert np.array_equal(cloud.points, rows[:, :3])
    assert list(cloud.attributes) == ["intensity", "ring"]


PCD_HEAD = "# comment\nVERSION .7\nFIELDS {fields}\nSIZE {sizes}\nTYPE {types}\n{rest}DATA ascii\n"


def test_pcd_fields_of_several_values_and_padding(tmp_path):
    head = PCD_HEAD.format(
        fields="x y _ z hist _",
        sizes="4 4 1 8 2 4",
        types="F F U F I F",
        rest="COUNT 1 1 2 1 3 1\nWIDTH 2\nHEIGHT 1\nPOINTS 2\n",
    )
    path = tmp_path / "a.pcd"
    path.write_text(head + "1 2 0 0 3 7 -8 9 0\n4 5 0 0 nan 1 2 3 0\n")
    cloud = read_cloud(path)
    assert cloud.points.dtype == np.float64
    assert np.array_equal(cloud.points, [[1, 2, 3], [4, 5, np.nan]], equal_nan=True)
    assert list(cloud.attributes) == ["hist"]
    assert cloud.attributes["hist"].tolist() == [[7, -8, 9], [1, 2, 3]]


def test_pcd_of_old_times(tmp_path):
    (tmp_path / "a.pcd").write_text("COLUMNS x y z\nPOINTS 1\nDATA ascii\n1 2 3\n")
    assert read_cloud(tmp_path / "a.pcd").points.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("kind", ["F", "U", "I"])
def test_pcd_colors_by_channel(tmp_path, kind):
    record = np.zeros(1, [("xyz", "<f4", 3), ("rgb", "<u4")])
    record["rgb"] = 0x00FF8001
    head = f"FIELDS x y z rgb\nTYPE F F F {kind}\nPOINTS 1\nDATA binary\n"
    (tmp_path / "a.pcd").write_bytes(head.encode() + record.tobytes())
    assert read_cloud(tmp_path / "a.pcd").attributes["rgb"].tolist() == [[255, 128, 1]]


NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats().map(repr),
    st.tuples(st.floats(-1e9, 1e9), st.integers(0, 12)).map(lambda v: f"{v[0]:.{v[1]}f}"),
    st.floats(allow_nan=False).map(lambda v: f"{v:.18e}"),
    st.sampled_from([".5", "5.", "-.25", "+7", "1e5", "-0", "-0.0", "00012.500", "NaN", "-inf"]),
)


def bits(values: np.ndarray) -> list[int]:
    """A NaN has no sign in text."""
    return np.where(np.isnan(values), np.nan, values).view("u8").tolist()


@given(st.lists(NUMBERS, min_size=1, max_size=60))
@settings(deadline=None)
def test_numbers_have_the_bits_that_float_gives(words):
    expected = bits(np.array([float(word) for word in words]))
    assert bits(parse_table([word.encode() for word in words])[:, 0]) == expected
    assert bits(parse_table([",".join(words).encode()], ",")[0]) == expected


@given(st.text("0123456789+-.eE_x,infa", min_size=1, max_size=12))
@settings(deadline=None)
def test_words_that_float_refuses_are_refused(word):
    try:
        expected = bits(np.array([float(word.replace("_", "x"))]))  # separators are Python's own
    except ValueError:
        with pytest.raises(ValueError, match="of point 0 is not a number"):
            parse_table([word.encode()])
    else:
        assert bits(parse_table([word.encode()])[0]) == expected


def test_the_error_names_the_point():
    lines = [b"1.5 2"] * 40_000
    lines[33_333] = b"1.5.1 2"
    with pytest.raises(ValueError, match=r"'1\.5\.1' of point 33333 is not a number"):
        parse_table(lines)
    lines[33_333] = b"1 2 3"
    with pytest.raises(ValueError, match="point 33333 has 3 columns, the first one 2"):
        parse_table(lines)
