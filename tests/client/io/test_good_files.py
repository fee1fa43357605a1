"""Files that other readers stumble over are read, and a refusal says what was seen."""

import struct
import zipfile

import numpy as np
import pytest
from tests.client.io.made_files import las_file

import farpoint
from farpoint.io import read_cloud, write_subset

POINTS = [[1, 2, 3], [4, 5, 6]]
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
    assert cloud.points.tolist() == POINTS
    assert {key: values.tolist() for key, values in cloud.attributes.items()} == attributes
    write_subset(tmp_path / f"out{name}", cloud, np.array([1, 0]))
    assert read_cloud(tmp_path / f"out{name}").points.tolist() == POINTS[::-1]


@pytest.mark.parametrize("kind", range(11))
def test_las_1_4_with_the_old_count_alone(tmp_path, kind):
    data = bytearray(las_file(4, kind))
    struct.pack_into("<I", data, 107, 60)
    data[247:375] = bytes(128)
    (tmp_path / "a.las").write_bytes(data)
    assert len(read_cloud(tmp_path / "a.las")) == 60


REFUSED = {
    "empty.csv": (b"", "0 points: no line has three numbers, the first line is ''"),
    "names.csv": (b"x,y,z\n", "0 points: .* the first line is 'x,y,z'"),
    "words.txt": (b"Dear all,\nplease find\n", "0 points: .* the first line is 'Dear all,'"),
    "gap.csv": (b"n,x,y,z\nA,,2,3\n", "the column x must hold numbers, got '' at point 0"),
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
    "no.pcd": (b"solid cube\nfacet\n", "no DATA line: .* got b'solid cube"),
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
