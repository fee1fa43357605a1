"""EncodeRequest and EncodeResponse messages, and the same over the Open Inference Protocol."""

import time
from dataclasses import replace

import numpy as np
import pytest
from tests.support.messages import array, tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint_models import EncoderConfig
from farpoint_server.codec import encode
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.batching import ModelOutput
from farpoint_server.kinds.encoder import StageOutput

LIMITS = RequestLimits(message_bytes=2000, points=100, clouds=4)
PLAIN = EncoderConfig(rates=(0.5, 0.5), channels=2)
COLORED = EncoderConfig(rates=(0.5,), channels=2, attributes=3)
CLOUD = np.arange(18, dtype=np.float32).reshape(6, 3)
COLORS = CLOUD * 2
# Two clouds of two and four points, of which one and two are kept, as float32 of 2 channels.
STAGE = StageOutput(
    lengths=np.array([1, 2]),
    indices=np.array([1, 0, 3], np.int32),
    features=np.arange(6, dtype=np.float32).reshape(3, 2),
    counts=np.array([2, 3, 1], np.int32),
    mean_distances=np.array([0.5, 1.5, 2.5], np.float32),
)


def outcome_of(*stages: StageOutput) -> Outcome:
    """What the model answers, by name."""
    outputs = {}
    for i, stage in enumerate(stages):
        outputs[f"lengths_{i}"] = ModelOutput(stage.lengths, None)
        for name, values in stage._asdict().items():
            if name != "lengths":
                outputs[f"{name}_{i}"] = ModelOutput(values, stage.lengths)
    return Outcome(outputs, 0, 0)


def request(points: np.ndarray = CLOUD, attributes=None, **fields) -> pb.EncodeRequest:
    made = pb.EncodeRequest(points=tensor(points), **fields)
    if attributes is not None:
        made.attributes.CopyFrom(tensor(attributes))
    return made


def parsed(made: pb.EncodeRequest, config=PLAIN, limits=LIMITS) -> encode.ParsedEncodeRequest:
    return encode.parse_encode_request(made, made.ByteSize(), config, limits)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_attributes_of_any_float_type_come_with_the_points(dtype):
    made = request(attributes=COLORS.astype(dtype), lengths=[2, 4])
    work = encode.decode_encode_request(parsed(made, COLORED))
    assert work.rows["points"].tolist() == CLOUD.tolist()
    assert work.rows["attributes"].dtype == np.float32
    assert work.rows["attributes"].tolist() == COLORS.tolist()
    assert work.lengths.tolist() == [2, 4]


def test_map_coordinates_are_shifted_to_the_first_row_of_each_cloud():
    work = encode.decode_encode_request(parsed(request(CLOUD.astype("f8") + 5e6, lengths=[2, 4])))
    shifted = np.concatenate([CLOUD[:2] - CLOUD[0], CLOUD[2:] - CLOUD[2]])
    assert work.rows["points"].tolist() == shifted.tolist()


WRONG = {
    "attributes that the model does not take": (request(attributes=COLORS), PLAIN, "attributes"),
    "none that it takes": (request(), COLORED, "attributes.shape"),
    "too few channels": (request(attributes=COLORS[:, :2]), COLORED, "attributes.shape"),
    "too few rows": (request(attributes=COLORS[:5]), COLORED, "attributes.shape"),
    "integers": (request(attributes=COLORS.astype("i4")), COLORED, "attributes.data_type"),
    "too many points": (request(np.zeros((101, 3), "f4")), PLAIN, "points.shape"),
    "lengths that do not add up": (request(lengths=[2, 3]), PLAIN, "lengths"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_refused_by_its_field(case):
    made, config, field = WRONG[case]
    with pytest.raises(InvalidRequestError) as caught:
        parsed(made, config)
    assert caught.value.field == field


def test_a_message_may_have_as_many_bytes_as_the_limit():
    made = request(CLOUD, COLORS)
    assert parsed(made, COLORED, RequestLimits(made.ByteSize(), 100, 4)).attributes is not None
    with pytest.raises(InvalidRequestError, match="request: expected a message of at most"):
        parsed(made, COLORED, RequestLimits(made.ByteSize() - 1, 100, 4))


def test_attributes_that_are_not_finite_are_named():
    colors = COLORS.astype(np.float64)
    colors[2, 0] = 1e300  # beyond float32
    colors[4, 2] = np.nan
    with pytest.raises(InvalidRequestError) as caught:
        encode.decode_encode_request(parsed(request(attributes=colors), COLORED))
    assert caught.value.field == "attributes.data"
    assert "NaN, infinity or values beyond float32 in 2 rows, the first at row 2" in str(
        caught.value
    )


def response(made: pb.EncodeRequest) -> pb.EncodeResponse:
    outcome = replace(outcome_of(STAGE), queue_ms=1.5, compute_ms=2.5)
    data = encode.serialize_encode_response("m", parsed(made), time.monotonic() - 7, outcome)
    return pb.EncodeResponse.FromString(data)


def test_a_response_has_the_stages_and_the_times():
    answer = response(request(lengths=[2, 4]))
    assert answer.model == "m"
    assert (answer.timings.queue_ms, answer.timings.compute_ms) == (1.5, 2.5)
    assert 7000 <= answer.timings.server_ms < 60_000
    (stage,) = answer.stages
    assert list(stage.lengths) == [1, 2]
    assert array(stage.indices, "<i4").tolist() == [1, 0, 3]
    assert array(stage.features, "<f4").tolist() == STAGE.features.tolist()
    assert array(stage.counts, "<i4").tolist() == [2, 3, 1]
    assert array(stage.mean_distances, "<f4").tolist() == [0.5, 1.5, 2.5]
    assert not stage.HasField("points")
    (stage,) = response(request(lengths=[2, 4], return_points=True)).stages
    assert array(stage.points, "<f4").tolist() == CLOUD[[1, 2, 5]].tolist()
