"""Every row in order, in a file's own format: the bytes are those of the input.

But for what the table of docs/files.md names: each entry of it has its test here.
"""

import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from tests.client.io.made_files import LAS_KINDS, LATIN_1, las_file, pcd_file, ply_file

import farpoint
from farpoint.io import read_cloud, write_subset

laspy = pytest.importorskip("laspy")
DOCS = (Path(__file__).parents[3] / "docs" / "files.md").read_text("utf-8")


def rewritten(path, suffix=None):
    """The bytes of a file of every row of `path`, in order."""
    cloud = read_cloud(path)
    out = path.with_name(f"out{suffix or path.suffix}")
    assert not write_subset(out, cloud, np.arange(len(cloud)))
    return out.read_bytes()


@pytest.mark.parametrize(("minor", "kind"), LAS_KINDS)
def test_las(tmp_path, minor, kind):
    data = las_file(minor, kind)
    (tmp_path / "a.las").write_bytes(data)
    assert rewritten(tmp_path / "a.las") == data


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize(("minor", "kind"), LAS_KINDS)
def test_las_by_way_of_laz(tmp_path, minor, kind, channels):
    data = las_file(minor, kind, channels=channels)
    (tmp_path / "a.las").write_bytes(data)
    if kind in (9, 10) and channels > 1:
        with pytest.raises(farpoint.CloudFileError, match=r"name the output \.las"):
            rewritten(tmp_path / "a.las", ".laz")
        return
    (tmp_path / "a.laz").write_bytes(rewritten(tmp_path / "a.las", ".laz"))
    assert (tmp_path / "a.laz").read_bytes()[104] == kind | 0x80
    assert rewritten(tmp_path / "a.laz") == (tmp_path / "a.laz").read_bytes()
    assert rewritten(tmp_path / "a.laz", ".las") == data


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("lists", [False, True])
def test_ply(tmp_path, encoding, lists):
    data = ply_file(encoding, lists=lists)
    (tmp_path / "a.ply").write_bytes(data)
    assert rewritten(tmp_path / "a.ply") == data
    (tmp_path / "b.ply").write_bytes(ply_file(encoding, lists=lists, others=True))
    assert rewritten(tmp_path / "b.ply") == data


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_pcd(tmp_path, encoding):
    data = pcd_file(encoding)
    (tmp_path / "a.pcd").write_bytes(data)
    assert rewritten(tmp_path / "a.pcd") == data


# No encoding has a letter for each of them; some are blanks or line ends of Unicode.
ODD = bytes(range(0x80, 0x100))
HEADS = {
    "a.ply": b"ply\nformat ascii 1.0\ncomment %s\nelement vertex 1\nproperty float x\n"
    b"property float y\nproperty float z\nproperty uchar %s\nend_header\n1 2 3 4\n",
    "a.pcd": b"# %s\nFIELDS x y z %s\nSIZE 4 4 4 1\nTYPE F F F U\nPOINTS 1\nDATA ascii\n1 2 3 4\n",
    "a.csv": b"# %s\nx,y,z,%s\n1,2,3,4\n",
    "b.csv": b"# %s\nx;y;z;t\n1,0;2;3;%s\n",
    "a.xyz": b"# %s\n# x y z %s\n1 2 3 4\n",
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("text", [ODD, "高さ".encode("shift_jis"), "Höhe".encode(), b"H\xf6he"])
def test_text_in_a_header_in_any_encoding(tmp_path, name, text):
    (tmp_path / name).write_bytes(HEADS[name] % (text, text))
    assert rewritten(tmp_path / name) == HEADS[name] % (text, text)
    assert len(read_cloud(tmp_path / name).attributes) == 1


@pytest.mark.parametrize("at", [26, 58, 229, 229 + 54 + 4, 229 + 54 + 160])
def test_text_of_las_in_any_encoding(tmp_path, at):
    data = patched(las_file(2, 3), at, ODD[at % 96 :][:16])
    (tmp_path / "a.las").write_bytes(data)
    assert rewritten(tmp_path / "a.las") == data


TEXTS = {
    "a.csv": b'\xef\xbb\xbfname, x ,y,z,\xdcbung\r\n\r\nP1,1.50,2,3,\xdf\r\n"a, b",4,5,6,7\r\n',
    "b.csv": b"# gr\xfc\xdfe\n# by hand\nx;y;z;t\n1,0;2,0;3,0;x,y\n4;5;6;z\n",
    "a.xyz": b"//X Y Z Scalar\n 1  2\t3 0x\n4 5 6 7\n",
    "a.txt": b"\n\n1 2 3\r4 5 6\r",
    "a.pts": b"# count\n 2 \n1 2 3 -5 9 8 7\n4 5 6 0 1 2 3\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(tmp_path, name):
    (tmp_path / name).write_bytes(TEXTS[name])
    assert rewritten(tmp_path / name) == TEXTS[name]


ARRAYS = {kind: np.arange(12).reshape(4, 3).astype(kind) for kind in ("<f2", ">f4", "<f8", ">i8")}
ARRAYS["records"] = np.zeros(
    4, [("x", ">f8"), ("y", "<f4"), ("z", "i2"), ("t", "U3"), ("n", "3i8")]
)


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(tmp_path, case):
    np.save(tmp_path / "a.npy", ARRAYS[case])
    assert rewritten(tmp_path / "a.npy") == (tmp_path / "a.npy").read_bytes()
    members = {
        "points": ARRAYS[case],
        "file": np.arange(4),
        "allow_pickle": np.array(0),
        "a/b": LATIN_1,
    }
    expected = {}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name, values in members.items():
            np.save(stream := BytesIO(), values)
            archive.writestr(f"{name}.npy", stream.getvalue())
            expected[f"{name}.npy"] = stream.getvalue()
    rewritten(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == expected


def test_bin(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, 160, np.uint8).tobytes()
    (tmp_path / "a.bin").write_bytes(data)
    cloud = read_cloud(tmp_path / "a.bin", columns=("x", "y", "z", "a", "b"))
    write_subset(tmp_path / "out.bin", cloud, np.arange(8))
    assert (tmp_path / "out.bin").read_bytes() == data


def npy(array):
    np.save(stream := BytesIO(), array)
    return stream.getvalue()


def npz(array, *, compressed=False):
    (np.savez_compressed if compressed else np.savez)(stream := BytesIO(), points=array)
    return stream.getvalue()


def patched(data, at, new):
    return data[:at] + new + data[at + len(new) :]


PADDED = np.dtype({"names": list("xyz"), "formats": ["f4"] * 3, "offsets": [0, 8, 16]})
ONES = np.frombuffer(b"\1" * 20, PADDED)
PACKED = np.frombuffer(b"\1" * 12, [(axis, "f4") for axis in "xyz"])
GRID = np.arange(24.0).reshape(4, 2, 3)
LAS = las_file(4, 3)
PLY = ply_file("ascii", lists=False)
SPREAD = b"ply\nformat ascii 1.0\nelement vertex 2\n"
SPREAD += (
    b"".join(b"property float %c\n" % axis for axis in b"xyz") + b"end_header\n1  2 3 4  5 6\n"
)
SPREAD = SPREAD.replace(b" 3 4", b" 3\n4")
XYZ = b"1 2 3\n4 5 6\n"


@dataclass
class Change:
    """What a file is before and after every row of it, or some, are written."""

    before: bytes
    after: bytes
    count: int | None = None
    """The rows that are written, from the first on."""


WRITTEN_ANEW = {
    ".npy": {
        "organized shape": Change(npy(GRID), npy(GRID.reshape(8, 3))),
        "order in memory": Change(npy(np.asfortranarray(GRID[0])), npy(GRID[0])),
        "padding of records": Change(npy(ONES), npy(PACKED)),
    },
    ".npz": {
        "organized shape": Change(npz(GRID), npz(GRID.reshape(8, 3))),
        "order in memory": Change(npz(np.asfortranarray(GRID[0])), npz(GRID[0])),
        "padding of records": Change(npz(ONES), npz(PACKED)),
        "compression": Change(npz(GRID[0], compressed=True), npz(GRID[0])),
    },
    ".ply": {
        "number of vertices": Change(PLY, ply_file("ascii", lists=False, points=2), 2),
        "line ends of a vertex on several lines": Change(
            SPREAD.replace(b"1  2", b"1\n2\n"), SPREAD.replace(b"  ", b" ")
        ),
    },
    ".pcd": {
        "`WIDTH`": Change(pcd_file("ascii"), pcd_file("ascii", points=4), 4),
        "`HEIGHT`": Change(pcd_file("binary", height=2), pcd_file("binary")),
        "`POINTS`": Change(pcd_file("binary"), pcd_file("binary", points=4), 4),
        "compressed `DATA`": Change(pcd_file("binary_compressed"), pcd_file("binary")),
    },
    ".bin": {},
    ".xyz": {
        "number of points": Change(b"2\n" + XYZ, b"1\n1 2 3\n", 1),
        "missing last line end": Change(XYZ[:-1], XYZ),
        "blank lines between points": Change(b"1 2 3\n \n4 5 6\n\n", XYZ),
        "comments between points": Change(b"1 2 3\n# a\n4 5 6\n//", XYZ),
    },
    ".las": {
        "numbers of points and returns": Change(patched(LAS, 247, bytes(128)), LAS),
        "bounds": Change(patched(LAS, 179, bytes(48)), LAS),
        "positions": Change(las_file(4, 7), las_file(4, 7, 30), 30),
    },
}
# With tests of their own: of other elements in `test_ply`, of laszip in `test_las_by_way_of_laz`,
# of COPC in test_files.py, of waveforms in test_notes.py.
OTHERS = {
    ".ply": {"other elements"},
    ".las": {"record of laszip", "octree of COPC", "waveform packets of another file"},
}


def members(data, suffix):
    """The bytes of a file, of an archive by name with the place of each."""
    if suffix != ".npz":
        return data
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


@pytest.mark.parametrize(
    ("suffix", "what"), [(suffix, what) for suffix in WRITTEN_ANEW for what in WRITTEN_ANEW[suffix]]
)
def test_what_is_written_anew(tmp_path, suffix, what):
    change = WRITTEN_ANEW[suffix][what]
    path, out = tmp_path / f"a{suffix}", tmp_path / f"out{suffix}"
    path.write_bytes(change.before)
    cloud = read_cloud(path)
    write_subset(out, cloud, np.arange(len(cloud))[: change.count])
    assert members(out.read_bytes(), suffix) == members(change.after, suffix)
    assert change.before != change.after


def test_the_table_of_the_documentation_says_so():
    _, _, table = DOCS.partition("| suffix | written anew | left out, with a note |")
    rows = [line.split("|")[1:4] for line in table.split("\n\n")[0].splitlines()[2:]]
    told = {
        suffixes.split("`")[1]: {entry.strip() for cell in cells for entry in cell.split(",")}
        - {""}
        for suffixes, *cells in rows
    }
    assert told == {s: set(found) | OTHERS.get(s, set()) for s, found in WRITTEN_ANEW.items()}
