"""Formats of the extra `io`: written by the libraries that people write them with."""

import subprocess
import sys

import numpy as np
import pytest
from tests.support.messages import columns_of, ros_message

import farpoint
from farpoint.io import read_cloud, write_subset

POINTS = np.random.default_rng(5).normal(size=(200, 3))
ROWS = np.array([150, 3, 77])


def test_e57_of_two_scans_with_poses(tmp_path):
    pye57 = pytest.importorskip("pye57")
    path = tmp_path / "a.e57"
    axes = ("cartesianX", "cartesianY", "cartesianZ")
    columns = dict(zip(axes, POINTS.T.copy(), strict=True))
    with pye57.E57(str(path), mode="w") as file:
        file.write_scan_raw({**columns, "intensity": np.arange(200.0)})
        file.write_scan_raw(columns, translation=np.array([100.0, 0, 0]))
    cloud = read_cloud(path)
    assert np.allclose(cloud.points, np.concatenate([POINTS, POINTS + np.array([100, 0, 0])]))
    assert cloud.attributes["scan"].tolist() == [0] * 200 + [1] * 200
    lost = "left out: the poses of 1 scans, by which their points are moved"
    assert cloud.notes == ("left out, as not every scan has it: intensity", lost)
    with pytest.raises(farpoint.CloudFileError, match=r"\.e57 is read, not written"):
        write_subset(tmp_path / "b.e57", cloud, ROWS)


def message(typestore, points, order, padding):
    """A PointCloud2 of the types of rosbags, with colors and times, in rows of 50 points."""
    columns = columns_of(points, rgb=np.full(200, 0x00FF8001, np.uint32), t=np.arange(200.0))
    made = vars(ros_message(columns, height=4, order=order, gap=padding))
    types = typestore.types
    field, header = (types[name] for name in ("sensor_msgs/msg/PointField", "std_msgs/msg/Header"))
    fields = [field(**vars(each)) for each in made.pop("fields")]
    extra = {"seq": 0} if "seq" in header.__dataclass_fields__ else {}
    stamp = types["builtin_interfaces/msg/Time"](0, 0)
    head = header(stamp=stamp, frame_id="lidar", **extra)
    cloud = types["sensor_msgs/msg/PointCloud2"]
    return cloud(header=head, fields=fields, is_dense=True, **made)


def write_recording(writer, typestore, serialize, clouds):
    """Clouds on /front, the second of big-endian numbers, and words on /words."""
    with writer:
        kinds = ("sensor_msgs/msg/PointCloud2", "std_msgs/msg/String")
        front, words = (
            writer.add_connection(t, k, typestore=typestore)
            for t, k in zip(("/front", "/words"), kinds, strict=True)
        )
        for i, points in enumerate(clouds):
            order = ">" if i == 1 else "<"
            made = message(typestore, points, order, padding=8 * i)
            writer.write(front, i, serialize(made, kinds[0]))
            word = typestore.types["std_msgs/msg/String"]("hello")
            writer.write(words, i, serialize(word, kinds[1]))


@pytest.mark.parametrize("kind", ["folder of sqlite3", "db3", "mcap", "bag"])
def test_recordings(tmp_path, kind):
    rosbags = pytest.importorskip("rosbags.highlevel")
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    assert rosbags
    typestore = get_typestore(Stores.ROS1_NOETIC if kind == "bag" else Stores.ROS2_JAZZY)
    clouds = [(POINTS + i).astype(np.float32) for i in range(3)]
    path = tmp_path / "recording.bag" if kind == "bag" else tmp_path / "recording"
    if kind == "bag":
        writer = rosbag1.Writer(path)
        serialize = typestore.serialize_ros1
    else:
        plugin = rosbag2.StoragePlugin.MCAP if kind == "mcap" else rosbag2.StoragePlugin.SQLITE3
        writer = rosbag2.Writer(path, version=9, storage_plugin=plugin)
        serialize = typestore.serialize_cdr
    write_recording(writer, typestore, serialize, clouds)
    if kind in ("db3", "mcap"):
        path = next(path.glob(f"*.{kind}"))
    for i, points in enumerate(clouds):
        cloud = read_cloud(path, message=i)
        assert np.array_equal(cloud.points, points)
        assert cloud.notes == (f"message {i} of 3 on /front, frame lidar",)
        assert cloud.attributes["t"].tolist() == list(range(200))
        assert (cloud.attributes["rgb"] == (255, 128, 1)).all()
    with pytest.raises(farpoint.CloudFileError, match="message must be from 0 to 2 of /front"):
        read_cloud(path, message=3)
    with pytest.raises(farpoint.CloudFileError, match=r"no PointCloud2 on /back; .*: /front"):
        read_cloud(path, topic="/back")


def test_fields_of_a_message_that_are_not_read_are_in_the_notes(tmp_path):
    pytest.importorskip("rosbags")
    from rosbags import rosbag2
    from rosbags.typesys import Stores, get_typestore

    typestore = get_typestore(Stores.ROS2_JAZZY)
    made = message(typestore, POINTS.astype(np.float32), "<", padding=0)
    field = typestore.types["sensor_msgs/msg/PointField"]
    made.fields.extend([field("", 0, 2, 1), field("t", 4, 2, 1)])
    kind = "sensor_msgs/msg/PointCloud2"
    with rosbag2.Writer(tmp_path / "a", version=9) as writer:
        topic = writer.add_connection("/front", kind, typestore=typestore)
        writer.write(topic, 0, typestore.serialize_cdr(made, kind))
    cloud = read_cloud(tmp_path / "a")
    assert cloud.notes[1:] == ("left out: fields without a name or of one that is taken: '', 't'",)
    assert cloud.attributes["t"].tolist() == list(range(200))


@pytest.mark.parametrize(
    ("suffix", "package"), [(".e57", "pye57"), (".mcap", "rosbags"), (".las", "laspy")]
)
def test_a_missing_package_is_one_sentence(tmp_path, suffix, package):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"content")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import farpoint\ntry: farpoint.io.read_cloud({str(path)!r})\n"
        "except farpoint.CloudFileError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extra = "las" if suffix == ".las" else "io"
    assert f"needs the package {package}: pip install 'farpoint[{extra}]'" in done.stdout
    assert done.stdout.count("\n") == 1
