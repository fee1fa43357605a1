"""`FarthestPointSample` in data pipelines: what it keeps of each form of data."""

import pickle
import sys
from typing import NamedTuple

import numpy as np
import pytest

import farpoint
from farpoint.transforms import FarthestPointSample

M = 7


class Pair(NamedTuple):
    points: np.ndarray
    label: int


@pytest.fixture
def transform(server):
    return FarthestPointSample(M, server=server.target)


@pytest.fixture
def rows(client, cloud):
    """The rows that are to be chosen of `cloud`."""
    return client.sample(cloud, M).indices


def test_an_array_with_features(transform, cloud, rows):
    points = np.hstack([cloud, np.arange(500)[:, None]])
    kept = transform(points)
    assert kept.shape == (M, 4)
    assert np.array_equal(kept[:, 3], rows)


def test_a_tuple_of_points_and_labels(transform, cloud, rows):
    points, segments, name = transform((cloud, np.arange(500), "chair"))
    assert np.array_equal(points, cloud[rows])
    assert np.array_equal(segments, rows)
    assert name == "chair"


def test_named_tuples_and_lists_keep_their_type(transform, cloud, rows):
    kept = transform(Pair(cloud, 3))
    assert type(kept) is Pair
    assert kept.label == 3
    assert np.array_equal(kept.points, cloud[rows])
    assert type(transform([cloud, 3])) is list


def test_a_dict_of_pointcept(transform, cloud, rows):
    data = {
        "coord": cloud,
        "color": cloud * 2,
        "segment": np.arange(500),
        "name": "scene0000_00",
        "grid_size": 0.02,
        "category": np.array([4]),
    }
    before = dict(data)
    kept = transform(data)
    assert list(kept) == list(data)
    assert np.array_equal(kept["coord"], cloud[rows])
    assert np.array_equal(kept["color"], 2 * cloud[rows])
    assert np.array_equal(kept["segment"], rows)
    assert kept["name"] == "scene0000_00"
    assert kept["category"] is data["category"]
    assert all(data[key] is before[key] for key in before)


def test_index_valid_keys_say_what_has_a_row_per_point(transform, cloud, rows):
    table = np.zeros(500)
    kept = transform(
        {"coord": cloud, "segment": np.arange(500), "table": table}
        | {"index_valid_keys": ["coord", "segment", "normal"]}
    )
    assert np.array_equal(kept["segment"], rows)
    assert kept["table"] is table


@pytest.mark.parametrize("kind", [list, np.array])
def test_offset_holds_the_ends_of_several_clouds(transform, client, cloud, kind):
    kept = transform({"coord": cloud, "feat": np.arange(500), "offset": kind([200, 500])})
    first = client.sample(cloud[:200], M).indices
    second = client.sample(cloud[200:], M).indices + 200
    assert np.array_equal(kept["feat"], [*first, *second])
    assert type(kept["offset"]) is type(kind([1]))
    assert list(kept["offset"]) == [M, 2 * M]


def test_coordinates_under_another_name(server, cloud):
    transform = FarthestPointSample(M, server=server.target, key="vertices")
    assert transform({"vertices": cloud})["vertices"].shape == (M, 3)


class Data:
    """As PyTorch Geometric's, as far as the transform goes."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def __getitem__(self, key):
        return getattr(self, key)

    def __setitem__(self, key, value):
        setattr(self, key, value)

    def to_dict(self):
        return dict(self.__dict__)

    def is_node_attr(self, key):
        return np.ndim(self[key]) > 0 and len(self[key]) == len(self.pos)


def test_data_of_pytorch_geometric(transform, cloud, rows):
    data = Data(pos=cloud, x=np.arange(500), y=np.array([3]), num_nodes=500)
    kept = transform.forward(data)
    assert np.array_equal(kept.pos, cloud[rows])
    assert np.array_equal(kept.x, rows)
    assert kept.y is data.y
    assert kept.num_nodes == M
    assert data.pos is cloud


def test_few_points_are_an_error_or_all_kept(server, cloud):
    with pytest.raises(farpoint.InvalidArgumentError, match='fewer="keep"'):
        FarthestPointSample(10, server=server.target)(cloud[:6])
    kept = FarthestPointSample(10, server=server.target, fewer="keep")(cloud[:6])
    assert sorted(kept.tolist()) == sorted(cloud[:6].tolist())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"color": np.ones((9, 3))}, r"got the keys \['color'\]"),
        ({"coord": np.ones((9, 3)), "offset": [3, 8]}, "up to 9, got"),
        ({"coord": np.ones((9, 3)), "offset": []}, "up to 9, got"),
        (np.ones((9, 2)), r"\(N, 3\) or more columns, got \(9, 2\)"),
        ((), "empty tuple"),
        (Data(pos=np.ones((9, 3)), edge_index=np.ones((2, 4))), "sample before"),
    ],
    ids=["no coordinates", "offset", "no offset", "columns", "tuple", "edges"],
)
def test_data_that_do_not_fit_are_refused(transform, data, message):
    with pytest.raises(farpoint.InvalidArgumentError, match=message):
        transform(data)


@pytest.mark.parametrize("arguments", [{"m": 0}, {"m": 3, "fewer": "pad"}])
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(farpoint.InvalidArgumentError):
        FarthestPointSample(**arguments)


def test_a_pickled_transform_samples_alike(transform, cloud):
    twin = pickle.loads(pickle.dumps(transform))
    assert repr(twin) == repr(transform)
    assert np.array_equal(twin(cloud), transform(cloud))


def test_without_the_ops_the_error_says_what_to_install(cloud, monkeypatch):
    for name in ("farpoint_ops", "farpoint_ops.arrays"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="needs the package farpoint-ops"):
        FarthestPointSample(3)(cloud)
