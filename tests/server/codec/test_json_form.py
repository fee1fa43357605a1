"""Messages in their JSON form: what no message can hold is named as wrong, never a bug."""

import json

import pytest

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec import json_form
from farpoint_server.codec.json_form import MAX_FIELDS, read_json
from farpoint_server.errors import InvalidRequestError

HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "text",
    [
        f'{{"coveringRadius": {HUGE}}}',
        f'{{"voxelGrid": {{"voxelSize": -{HUGE}}}}}',
        f'{{"voxelGrid": {{"origin": [{HUGE}, 0, 0]}}}}',
        f'{{"lengths": [{HUGE}]}}',
        '{"lengths": [1e999]}',
        '{"lengths": [1.5]}',
        '{"coveringRadius": 1e300}',
        '{"coveringRadius": "x"}',
        '{"coveringRadius": [1]}',
        '{"points": 7}',
        '{"method": "NONE"}',
        '{"none": 1}',
        "[" * 4000,
        "[]",
        "{",
    ],
)
def test_what_no_message_holds_is_named_as_wrong(text):
    with pytest.raises(InvalidRequestError, match="a message in JSON"):
        read_json(text.encode(), pb.SampleRequest, clouds=4)


def test_a_message_of_many_values_is_refused_before_it_is_parsed():
    text = json.dumps({"lengths": [1] * (MAX_FIELDS + 99)})
    with pytest.raises(InvalidRequestError, match="values"):
        read_json(text.encode(), pb.SampleRequest, clouds=4)


def test_a_message_is_what_it_was():
    request = pb.SampleRequest(lengths=[3, 4], covering_radius=0.5, method=1)
    text = json_form.write_json(request.SerializeToString(), pb.SampleRequest)
    assert pb.SampleRequest.FromString(read_json(text, pb.SampleRequest, 4)) == request
