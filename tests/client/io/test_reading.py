"""Spellings of text, layouts of arrays and odd headers are read; a refusal says what was seen."""

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.io.made_files import las_file

import farpoint
from farpoint.io import read_cloud, write_subset
from farpoint.io.numbers import parse_table

SPELLINGS = {
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


@pytest.mark.parametrize("case", SPELLINGS)
def test_spellings_of_text(tmp_path, case):
    path = tmp_path / "cloud.txt"
    path.write_text(SPELLINGS[case], "utf-8", newline="")
    cloud = read_cloud(path)
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.points.dtype == np.float64
    assert cloud.attributes == {}


TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)
RECORDS = np.zeros(6, [("intensity", "u2"), ("Z", "f8"), ("Y", "f8"), ("X", "f8")])
RECORDS["X"], RECORDS["Y"], RECORDS["Z"] = TABLE[:, 0], TABLE[:, 1], TABLE[:, 2]

ARRAYS = {
    "rows": TABLE,
    "organized": TABLE.reshape(2, 3, 4),
    "three columns": TABLE[:, :3],
    "big-endian": TABLE.astype(">f8"),
    "fortran": np.asfortranarray(TABLE),
    "records": RECORDS,
    "organized records": RECORDS.reshape(2, 3),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_npy(tmp_path, case):
    np.save(tmp_path / "cloud.npy", ARRAYS[case])
    cloud = read_cloud(tmp_path / "cloud.npy")
    assert np.array_equal(cloud.points, TABLE[:, :3])
    assert len(cloud.attributes) == ("three" not in case)


def test_npz_with_attributes(tmp_path):
    np.savez(tmp_path / "a.npz", other=np.arange(6), points=TABLE[:, :3], note="hello")
    cloud = read_cloud(tmp_path / "a.npz")
    assert np.array_equal(cloud.points, TABLE[:, :3])
    assert list(cloud.attributes) == ["other"]


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


TWO = [[1, 2, 3], [4, 5, 6]]
XYZ = "".join(f"property float {axis}\n" for axis in "xyz")
PLY = f"ply\nformat ascii 1.0\nelement vertex 2\n{XYZ}{{}}end_header\n"
FACES = "element face 1\nproperty list uchar int vertex_indices\n"
PCD = "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nPOINTS 2\nDATA ascii\n"

FILES = {
    "a name.csv": ("name,x,y,z\nP1,1,2,3\nP2,4,5,6\n", {"name": ["P1", "P2"]}),
    "quotes.csv": ('name,x,y,z\n"P 1, a",1,2,3\n"3; 4",4,5,6\n', {"name": ["P 1, a", "3; 4"]}),
    "quoted numbers.csv": ('"x","y","z"\n"1","2","3"\n"4","5","6"\n', {}),
    "a time.csv": (
        "time;x;y;z\n2021-05-06 12:00:01;1,0;2,0;3,0\n2021-05-06 12:00:02;4;5;6\n",
        {"time": ["2021-05-06 12:00:01", "2021-05-06 12:00:02"]},
    ),
    "an empty cell.csv": ("id,x,y,z\n,1,2,3\n8,4,5,6\n", {"id": ["", "8"]}),
    "pandas.csv": (",x,y,z\n0,1,2,3\n1,4,5,6\n", {"column_0": [0, 1]}),
    "text before numbers.txt": ("name x y z\na 1 2 3\nb 4 5 6\n", {"name": ["a", "b"]}),
    "a sentence above.txt": ("Scan of 2021 05 06 by A\nx y z\n1 2 3\n4 5 6\n", {}),
    "commas in words.csv": ("x;y;z;t\n1,0;2,0;3,0;a, b\n4;5;6;c\n", {"t": ["a, b", "c"]}),
    "commented names.xyz": ("# made by hand\n# id X Y Z\nA 1 2 3\nB 4 5 6\n", {"id": ["A", "B"]}),
    "tabs.csv": ("x\ty\tz\tt\n1\t2\t3\ta b\n4\t5\t6\t\n", {"t": ["a b", ""]}),
    "tabs with a first cell empty.txt": ("t\tx\ty\tz\n\t1\t2\t3\nb\t4\t5\t6\n", {"t": ["", "b"]}),
    "several lines.ply": (PLY.format("") + "1 2\n3\n4\n5 6\n", {}),
    "one line.ply": (PLY.format(FACES) + "1 2 3 4 5 6 3 0 1\n1", {}),
    "a face on two lines.ply": (PLY.format(FACES) + "1 2 3\n4 5 6\n3\n0 1 1\n", {}),
    "old line ends.ply": ((PLY.format(FACES) + "1 2 3\n4 5 6\n3 0 1 1").replace("\n", "\r"), {}),
    "tabs.ply": (PLY.format("").replace(" ", "\t") + "1\t2\t3\n4\t5\t6\n", {}),
    "a mark.pcd": ("\ufeff" + PCD + "1 2 3\n4 5 6\n", {}),
    "tabs.pcd": (PCD.replace(" ", "\t") + "1 2\t3\n4 5 6\n", {}),
    "line ends of Windows.pcd": ((PCD + "1   2 3\n4 5 6\n").replace("\n", "\r\n"), {}),
    "extended.pcd": ("PCD 3.0 - Extended\nSENSOR os1\n" + PCD + "1 2 3\n4 5 6\n", {}),
    "a version.pcd": (PCD.replace(".7", "3.0 - Extended") + "1 2 3\n4 5 6\n", {}),
    "none of a field.pcd": (
        PCD.replace("x y z", "x y _ z").replace("4 4 4", "4 4 1 4").replace("F F F", "F F U F")
        .replace("WIDTH", "COUNT 1 1 0 1\nWIDTH") + "1 2 3\n4 5 6\n",
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_text_is_read(tmp_path, name):
    content, attributes = FILES[name]
    (tmp_path / name).write_bytes(content.encode())
    cloud = read_cloud(tmp_path / name)
    assert cloud.points.tolist() == TWO
    assert {key: values.tolist() for key, values in cloud.attributes.items()} == attributes
    write_subset(tmp_path / f"out{name}", cloud, np.array([1, 0]))
    assert read_cloud(tmp_path / f"out{name}").points.tolist() == TWO[::-1]


REFUSED = {
    "names.csv": (b"x,y,z\n", "0 points: .* the first line is 'x,y,z'"),
    "words.txt": (b"Dear all,\nplease find\n", "0 points: .* the first line is 'Dear all,'"),
    "twice.csv": (b"x,y,z,a,a\n1,2,3,4,5\n", "two columns are named a: name all, as in --columns"),
    "open.csv": (b'n,x,y,z\n"a,1,2,3\nb,4,5,6\n', "a quotation mark is not closed"),
    "cut.ply": (
        PLY.format("").encode() + b"1 2 3\n4 5\n",
        "point 1 has 2 columns, the first one 3",
    ),
    "cut short.ply": (PLY.format("").encode() + b"1 2\n3 4 5\n\n", "point 1 has 3 columns"),
    "ended.ply": (PLY.format(FACES).encode() + b"1 2 3\n4 5\n", "z of vertex 1 is ''"),
    "more.ply": (PLY.format("").encode() + b"1 2 3\n4 5 6\n7\n", "1 words are left over"),
    "no.ply": (b"ply\nformat ascii 2\n", "expected a header from `ply` to `end_header`"),
    "odd.ply": (PLY.format("").replace("ascii", "packed").encode(), "the format is 'packed'"),
    "half.ply": (
        PLY.format("").replace("float", "half").encode() + b"1 2 3\n4 5 6\n",
        "unknown type 'half'",
    ),
    "width.pcd": (PCD.replace("WIDTH 2", "WIDTH w").encode(), "WIDTH is 'w', expected a whole"),
    "size.pcd": (
        PCD.replace("SIZE 4", "SIZE 3").encode() + b"1 2 3\n4 5 6\n",
        "field x has size 3 and type F, expected F of 2, 4 or 8",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_was_seen(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(farpoint.CloudFileError, match=message):
        read_cloud(tmp_path / name)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (104, 11, "the point format is 11, expected 0 to 10"),
        (105, 9, "the header has points of 9 bytes, those of format 3 have"),
    ],
)
def test_a_las_that_contradicts_itself(tmp_path, at, value, message):
    data = bytearray(las_file(2, 3))
    data[at] = value
    (tmp_path / "a.las").write_bytes(data)
    with pytest.raises(farpoint.CloudFileError, match=message):
        read_cloud(tmp_path / "a.las")


def test_an_archive_with_other_entries_than_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", points=np.eye(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(farpoint.CloudFileError, match=r"the entries readme\.txt are no arrays"):
        read_cloud(tmp_path / "a.npz")
