"""Requests and results of `encode`."""

import numpy as np
import pytest

import farpoint
from farpoint._connection.call import CallContext
from farpoint._rpcs.encode import EncodeRpc
from farpoint._tensors import to_arrays, to_tensor
from farpoint.v1 import sampling_pb2 as pb

CLOUDS = [np.arange(12.0).reshape(4, 3), np.arange(6, dtype=np.float32).reshape(2, 3)]


def stage(indices: list[int], lengths: list[int]) -> pb.EncodedStage:
    count = len(indices)
    return pb.EncodedStage(
        lengths=lengths,
        indices=to_tensor([np.array(indices, np.int32)]),
        features=to_tensor([np.arange(count * 2, dtype=np.float32).reshape(count, 2)]),
        counts=to_tensor([np.ones(count, np.int32)]),
        mean_distances=to_tensor([np.zeros(count, np.float32)]),
    )


@pytest.mark.parametrize(
    "attributes",
    [
        [[1, 2, 3, 4], [5, 6]],
        {"a": [[1, 2, 3, 4], [5, 6]]},
        [np.array([[1], [2], [3], [4]], np.uint8), np.array([5, 6], np.float64)],
    ],
)
def test_attributes_become_columns_of_float32(attributes):
    request = EncodeRpc(CLOUDS, None, attributes).request
    [sent] = to_arrays(request.attributes)
    assert (sent.dtype, sent.tolist()) == (np.float32, [[1], [2], [3], [4], [5], [6]])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ([np.ones((4, 1)), np.ones((2, 2))], r"as many values .* got \[1, 2\]"),
        ([np.ones((4, 1)), np.ones((3, 1))], "one row per point"),
        ([np.ones((4, 1, 1)), np.ones((2, 1, 1))], r"shape \(N, A\)"),
        ([np.array(list("abcd")), np.array(list("ab"))], "must be numbers"),
    ],
)
def test_wrong_attributes_are_named(attributes, message):
    with pytest.raises(farpoint.InvalidArgumentError, match=message) as caught:
        EncodeRpc(CLOUDS, None, attributes)
    assert caught.value.field == "attributes"


def test_each_cloud_gets_its_own_part_of_every_stage():
    rpc = EncodeRpc(CLOUDS, None, None)
    response = pb.EncodeResponse(
        model="m", stages=[stage([3, 0, 1], [2, 1]), stage([3, 1], [1, 1])]
    )
    first, second = rpc.read(response, CallContext(None))
    assert [s.indices.tolist() for s in first.stages] == [[3, 0], [3]]
    assert [s.indices.tolist() for s in second.stages] == [[1], [1]]
    np.testing.assert_array_equal(first.stages[0].points, CLOUDS[0][[3, 0]])
    np.testing.assert_array_equal(second.stages[0].features, [[4, 5]])
    assert first.model == "m"


@pytest.mark.parametrize(
    "wrong", [stage([3, 0], [2]), stage([3, 0, 1], [2, 2]), stage([3, 0, 2], [2, 1])]
)
def test_an_answer_that_does_not_fit_is_an_internal_error(wrong):
    with pytest.raises(farpoint.InternalError, match="the server answered with"):
        EncodeRpc(CLOUDS, None, None).read(pb.EncodeResponse(stages=[wrong]), CallContext(None))
