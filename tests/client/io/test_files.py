"""Files read, and chosen rows written: all in a file's own format, columns in any other."""

import numpy as np
import pytest
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud, write_subset
from farpoint.io.cloud import Cloud
from farpoint.io.files import replacing

ROWS = np.array([700, 3, 999, 0, 512])

# Name, points, type, attributes, lowest and highest corner to the digits given.
FILES = {
    "street_kitti_part.bin": (26_912, "f4", 1, (-143.85, -42.00, -2.94)),
    "street_organized_part.npy": (4_096, "f4", 1, (-115.60, -39.24, -2.53)),
    "street_map_part.ply": (3_100, "f4", 0, (-150.76, -42.11, -2.57)),
    "vehicle_lidar_part.ply": (4_935, "f4", 1, (-8.68, -7.21, -2.96)),
    "cad_part.ply": (1_250, "f4", 3, (-2.5, -1.25, 0)),
    "car_cloud_part.csv": (1_050, "f8", 3, (-51.59, 0.64, -6.33)),
    "office_kinect_part.pcd": (4_800, "f4", 1, (-2.62, -2.15, 1.84)),
    "milk.pcd": (13_704, "f4", 0, (-0.14, -0.26, 0.71)),
    "lamppost.pcd": (1_771, "f4", 0, (-11.17, -0.38, -5.45)),
    "plane_strip_rgb_normals.pcd": (1_000, "f4", 5, (-0.89, -0.65, 0.88)),
    "autzen-utm.pcd": (1_065, "f8", 13, (493_994.87, 4_877_429.62, 123.93)),
    "autzen_trim_part.laz": (2_200, "f8", 16, (636_023.12, 848_941.72, 406.43)),
    "simple.las": (1_065, "f8", 16, (635_619.85, 848_899.70, 406.59)),
    "epsg_4326_part.las": (1_076, "f8", 12, (-94.68, 31.04, 39.50)),
    "plane_state_plane_feet.laz": (28_185, "f8", 16, (1_423_214.52, 4_189_096.63, 67.86)),
    "image_lattice_part.las": (1_200, "f8", 18, (1, 1, 44)),
    "tiny_A4.e57": (4, "f8", 4, (-44.95, -1.35, -0.61)),
    "fullwave_pf10.laz": (10_750, "f8", 26, (194_267.42, 8_249_096.01, 989.94)),
}


def assert_rows(written, cloud, rows):
    assert written.points.dtype == cloud.points.dtype
    assert np.array_equal(written.points, cloud.points[rows], equal_nan=True)
    assert list(written.attributes) == list(cloud.attributes)
    for name, values in cloud.attributes.items():
        assert written.attributes[name].dtype == values.dtype
        assert np.array_equal(
            written.attributes[name], values[rows], equal_nan=values.dtype.kind == "f"
        )


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_and_its_own_format_keeps_every_attribute(tmp_path, name):
    points, dtype, attributes, lowest = FILES[name]
    source = cloud_file(name)
    if source.suffix == ".e57":
        pytest.importorskip("pye57")
    cloud = read_cloud(source)
    assert cloud.points.dtype == dtype
    assert cloud.points.shape == (points, 3)
    assert len(cloud.attributes) == attributes
    assert all(len(values) == points for values in cloud.attributes.values())
    assert np.nanmin(cloud.points, 0) == pytest.approx(lowest, abs=0.0051)
    if source.suffix != ".e57":
        path = tmp_path / f"subset{source.suffix}"
        write_subset(path, cloud, ROWS)
        assert_rows(read_cloud(path), cloud, ROWS)


@pytest.mark.parametrize("suffix", [".ply", ".pcd", ".npz"])
@pytest.mark.parametrize("name", ["street_kitti_part.bin", "autzen-utm.pcd"])
def test_other_formats_keep_numbers_exactly(tmp_path, name, suffix):
    cloud = read_cloud(cloud_file(name))
    path = tmp_path / f"subset{suffix}"
    write_subset(path, cloud, ROWS)
    assert_rows(read_cloud(path), cloud, ROWS)


@pytest.mark.parametrize("suffix", [".csv", ".xyz", ".txt"])
@pytest.mark.parametrize("name", ["street_kitti_part.bin", "fullwave_pf10.laz"])
def test_text_reads_back_as_the_same_numbers(tmp_path, name, suffix):
    cloud = read_cloud(cloud_file(name))
    path = tmp_path / f"subset{suffix}"
    write_subset(path, cloud, ROWS)
    written = read_cloud(path)
    assert np.array_equal(written.points.astype(cloud.points.dtype), cloud.points[ROWS])
    for values, kept in zip(written.attributes.values(), cloud.attributes.values(), strict=True):
        assert np.array_equal(values.astype(kept.dtype), kept[ROWS])
    assert (list(written.attributes) == list(cloud.attributes)) == (suffix == ".csv")


def test_las_coordinates_in_text_have_the_digits_of_their_scale(tmp_path):
    write_subset(tmp_path / "a.xyz", read_cloud(cloud_file("simple.las")), np.arange(1_000))
    coordinates = [line.split()[:3] for line in (tmp_path / "a.xyz").read_text().splitlines()]
    assert max(len(number.partition(".")[2]) for row in coordinates for number in row) == 2


def test_a_reference_system_that_a_format_does_not_hold_is_named(tmp_path):
    cloud = Cloud(np.zeros((1, 3)), {}, crs="PROJCRS[]")
    lost = ("left out: the coordinate reference system",)
    assert write_subset(tmp_path / "a.ply", cloud, np.arange(1)) == lost


def test_the_octree_of_copc_is_left_out(tmp_path):
    laspy = pytest.importorskip("laspy")
    las = laspy.read(cloud_file("image_lattice_part.las"))
    las.header.vlrs += [laspy.VLR("copc", 77, "octree", b"x"), laspy.VLR("mine", 78, "", b"y")]
    las.evlrs += [laspy.VLR("copc", 1000, "", b"x" * 99), laspy.VLR("mine", 79, "", b"z")]
    las.write(tmp_path / "tree.las")
    cloud = read_cloud(tmp_path / "tree.las")
    for name in ("subset.las", "subset.laz"):
        assert write_subset(tmp_path / name, cloud, ROWS) == ("left out: the octree of COPC",)
        after = laspy.read(tmp_path / name)
        assert "copc" not in [record.user_id for record in (*after.vlrs, *after.evlrs)]
        assert ("mine", b"z") in [(r.user_id, r.record_data_bytes()) for r in after.evlrs]
        assert np.array_equal(read_cloud(tmp_path / name).points, cloud.points[ROWS])


def test_pcd_of_colors_becomes_ply_of_colors(tmp_path):
    cloud = read_cloud(cloud_file("plane_strip_rgb_normals.pcd"))
    write_subset(tmp_path / "a.ply", cloud, ROWS)
    written = read_cloud(tmp_path / "a.ply").attributes
    colors = np.stack([written[c] for c in ("red", "green", "blue")], axis=1)
    assert colors.dtype == np.uint8
    assert np.array_equal(colors, cloud.attributes["rgb"][ROWS])


CLOUD = Cloud(np.full((2, 3), "a"), {})


@pytest.mark.parametrize("suffix", [".ply", ".pcd"])
def test_a_failed_write_leaves_the_former_file(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_text("before")
    with pytest.raises(farpoint.CloudFileError, match="coordinates of type <U1 have no place"):
        write_subset(path, CLOUD, np.arange(2))
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_permissions_are_kept_and_parts_are_not_seen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("before")
    path.chmod(0o640)
    with replacing(path) as part:
        part.write_text("after")
        assert path.read_text() == "before"
        assert (part.suffix, part.parents[1]) == (".csv", tmp_path)
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_interrupt_leaves_nothing(tmp_path):
    def interrupted():
        with replacing(tmp_path / "a.csv") as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_panic_of_a_library_is_caught_and_an_interrupt_is_not(tmp_path, monkeypatch):
    class PanicError(BaseException):
        pass

    class Source:
        error: BaseException = PanicError("attempt to subtract with overflow")

        def save(self, path, rows):  # noqa: ARG002
            raise self.error

    Source.__module__ = "farpoint.io.formats.text"
    cloud = Cloud(np.zeros((1, 3)), {}, Source())
    with pytest.raises(farpoint.CloudFileError, match=r"a.csv: damaged: attempt .*PanicError"):
        write_subset(tmp_path / "a.csv", cloud, np.arange(1))
    monkeypatch.setattr(Source, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write_subset(tmp_path / "a.csv", cloud, np.arange(1))


def test_other_readers_read_what_is_written(tmp_path):
    plyfile = pytest.importorskip("plyfile")
    cloud = read_cloud(cloud_file("autzen-utm.pcd"))
    write_subset(tmp_path / "a.ply", cloud, ROWS)
    vertex = plyfile.PlyData.read(tmp_path / "a.ply")["vertex"]
    assert np.array_equal(np.stack([vertex[axis] for axis in "xyz"], axis=1), cloud.points[ROWS])
    for name, values in cloud.attributes.items():
        assert vertex[name].dtype == values.dtype
        assert np.array_equal(vertex[name], values[ROWS])
