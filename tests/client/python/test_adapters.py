"""Objects of other libraries as clouds: laspy's own, and stand-ins for the others."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import farpoint

DATA = Path(__file__).resolve().parents[2] / "data"
COLORS = np.random.default_rng(1).integers(0, 255, (500, 4)).astype(np.uint8)


def stand_in(module: str, name: str, **attributes: object) -> object:
    """An object of a class of this name, as if the library were installed."""
    return type(name, (), {"__module__": module, **attributes})()


def pyg_data(**tensors: object) -> object:
    """As PyTorch Geometric's: per-point are the tensors with as many rows as `pos`."""
    rows = len(tensors["pos"])
    return stand_in(
        "torch_geometric.data.data",
        "Data",
        **tensors,
        __getitem__=lambda _, key: tensors[key],
        to_dict=lambda _: dict(tensors),
        is_node_attr=lambda _, key: len(tensors[key]) == rows and key != "edge_index",
    )


def frame(values: np.ndarray, columns: list) -> object:
    """A data frame of pandas."""

    def columns_of(_: object, key: object) -> SimpleNamespace:
        found = [*map(columns.index, key)] if isinstance(key, list) else columns.index(key)
        return SimpleNamespace(to_numpy=lambda: values[:, found])

    return stand_in(
        "pandas.core.frame",
        "DataFrame",
        columns=columns,
        __getitem__=columns_of,
        to_numpy=lambda _: values,
    )


def open3d_tensors(**values: np.ndarray) -> object:
    on_host = {
        name: SimpleNamespace(cpu=lambda value=value: SimpleNamespace(numpy=lambda: value))
        for name, value in values.items()
    }
    return stand_in("open3d.cpu.pybind.t.geometry", "PointCloud", point=on_host)


@pytest.fixture
def check(client, cloud):
    """An object is sampled as its coordinates are, and its attributes are gathered."""

    def check(value, attributes, points=cloud):
        expected = client.sample(points, 9)
        sample = client.sample(value, 9)
        assert np.array_equal(sample.indices, expected.indices)
        assert np.array_equal(sample.points, expected.points)
        found = sample.attributes or {}
        assert found.keys() == attributes.keys()
        for name, values in attributes.items():
            assert np.array_equal(found[name], np.asarray(values)[sample.indices])

    return check


def test_a_cloud_of_a_file(check):
    cloud = farpoint.io.read_cloud(DATA / "plane_strip_rgb_normals.pcd")
    check(cloud, cloud.attributes, cloud.points)


def test_attributes_of_the_caller_take_the_place_of_the_objects_own(client):
    cloud = farpoint.io.read_cloud(DATA / "plane_strip_rgb_normals.pcd")
    rows = np.arange(len(cloud))
    sample = client.sample(cloud, 3, attributes=rows)
    assert np.array_equal(sample.attributes, sample.indices)


def test_a_list_of_objects_and_arrays(client, cloud):
    colored = pyg_data(pos=cloud, x=COLORS)
    first, second = client.sample([colored, cloud], 5)
    assert np.array_equal(first.indices, second.indices)
    assert np.array_equal(first.attributes["x"], COLORS[first.indices])
    assert second.attributes is None


def test_encode_takes_the_coordinates_alone(cloud):
    from farpoint._rpcs.encode import EncodeRpc

    rpc = EncodeRpc(pyg_data(pos=cloud, x=COLORS), None, None)
    assert rpc.request == EncodeRpc(cloud, None, None).request
    assert not rpc.request.HasField("attributes")


def test_open3d(check, cloud):
    empty = {"has_colors": lambda _: False, "has_normals": lambda _: False, "points": cloud}
    kind = "open3d.cpu.pybind.geometry", "PointCloud"
    check(stand_in(*kind, **empty), {})
    check(
        stand_in(*kind, **empty | {"has_normals": lambda _: True, "normals": cloud}),
        {"normals": cloud},
    )
    check(open3d_tensors(positions=cloud, intensity=COLORS), {"intensity": COLORS})


def test_pytorch_geometric(check, cloud):
    edges = np.zeros((2, 500), int)
    check(pyg_data(pos=cloud, x=COLORS, y=np.array([3]), edge_index=edges), {"x": COLORS})


def test_a_batch_of_pytorch_geometric_is_refused_with_the_remedy(client, cloud):
    batch = type(pyg_data(pos=cloud))
    batch.to_data_list = lambda _: []
    with pytest.raises(farpoint.InvalidArgumentError, match=r"pass batch\.to_data_list\(\)"):
        client.sample(batch(), 3)


def test_objects_without_points_are_refused(client):
    with pytest.raises(farpoint.InvalidArgumentError, match="no positions"):
        client.sample(open3d_tensors(colors=COLORS), 3)
    with pytest.raises(farpoint.InvalidArgumentError, match="no pos"):
        client.sample(stand_in("torch_geometric.data.data", "Data", pos=None), 3)


def test_laspy(check):
    laspy = pytest.importorskip("laspy", reason="optional extra: laspy is not installed")
    las = laspy.read(DATA / "simple.las")
    names = set(las.point_format.dimension_names) - {"X", "Y", "Z"}
    check(las, {name: np.asarray(las[name]) for name in names}, np.asarray(las.xyz))


def test_pandas(check, cloud):
    check(frame(cloud, [0, 1, 2]), {})
    labelled = np.hstack([COLORS[:, :1], cloud])
    check(frame(labelled, ["label", "X", "Y", "Z"]), {"label": COLORS[:, 0]})


def records(cloud, names="x y z", **fields):
    """A structured array, as ros_numpy, plyfile and pypcd give."""
    types = [(name, cloud.dtype) for name in names.split()]
    made = np.zeros(
        len(cloud), types + [(name, v.dtype, v.shape[1:]) for name, v in fields.items()]
    )
    for name, column in zip(names.split(), cloud.T, strict=True):
        made[name] = column
    for name, values in fields.items():
        made[name] = values
    return made


def test_structured_arrays(check, cloud):
    ring, names = np.arange(500, dtype=np.uint16), np.array([f"n{i}" for i in range(500)])
    fields = {"ring": ring, "color": COLORS, "name": names}
    plain = records(cloud, **fields)
    check(plain, fields)
    check(plain.reshape(20, 25), fields)
    check(plain.view(np.recarray), fields)
    check(plain.astype(plain.dtype.newbyteorder(">"))[::-1][::-1], fields)
    check(records(cloud, "Easting Northing Height"), {})
    wide = np.zeros(500, [("xyz", "f4", 3), ("ring", "u2")])
    wide["xyz"], wide["ring"] = cloud, ring
    check(wide, {"ring": ring})


def test_a_batch_of_structured_arrays(client, cloud):
    first, second = client.sample([records(cloud, ring=COLORS[:, 0]), cloud], 5)
    assert np.array_equal(first.indices, second.indices)
    assert np.array_equal(first.attributes["ring"], COLORS[first.indices, 0])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (np.zeros(9, [("x", "f4"), ("y", "f4"), ("t", "f4")]), "no z among the fields x, y, t"),
        (np.zeros(9, [(axis, "U4") for axis in "xyz"]), "the field x must hold one number"),
        (np.zeros(0, [(axis, "f4") for axis in "xyz"]), "at least one point, got 0"),
    ],
)
def test_structured_arrays_without_coordinates_name_their_fields(client, made, message):
    with pytest.raises(farpoint.InvalidArgumentError, match=message):
        client.sample(made, 1)


def test_a_structured_array_with_a_mask_is_refused(client, cloud):
    masked = np.ma.masked_array(records(cloud))
    masked.mask[3] = True
    with pytest.raises(farpoint.InvalidArgumentError, match="drop or fill its masked values"):
        client.sample(masked, 1)


def test_trimesh(check, cloud):
    kind = "trimesh.points", "PointCloud"
    check(stand_in(*kind, vertices=cloud, colors=np.empty((0, 4))), {})
    check(stand_in(*kind, vertices=cloud, colors=COLORS), {"colors": COLORS})
    check(stand_in("trimesh.base", "Trimesh", vertices=cloud), {})
