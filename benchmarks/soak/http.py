"""Calls of a soak over HTTP: Sample by the Connect protocol, and the model `fps` over REST."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format

from benchmarks.soak.samples import SampleCase
from farpoint.v1 import sampling_pb2 as pb

CONNECT, REST = "/farpoint.v1.SamplingService/Sample", "/v2/models/fps/infer"
PROTO, JSON = "application/proto", "application/json"
HttpRequest = tuple[str, str, bytes, Callable[[bytes], bool]]
"""Path, content type, body, and whether the body of an answer is right."""


def http_requests(case: SampleCase) -> dict[str, HttpRequest]:
    """The same request in each form of HTTP; `case` is of one float32 cloud without extras."""
    request = pb.SampleRequest.FromString(case.request)

    def is_right_json(body: bytes) -> bool:
        return case.is_right(json_format.Parse(body, pb.SampleResponse()))

    def is_right_rest(body: bytes) -> bool:
        outputs = {output["name"]: output["data"] for output in json.loads(body)["outputs"]}
        return bool(np.array(outputs["indices"], "<i4").tobytes() == case.indices)

    text = json_format.MessageToJson(request, indent=None).encode()
    return {
        "connect": (
            *(CONNECT, PROTO, case.request),
            lambda body: case.is_right(pb.SampleResponse.FromString(body)),
        ),
        "connect-json": (CONNECT, JSON, text, is_right_json),
        "rest": (REST, JSON, _rest_body(request), is_right_rest),
    }


def _rest_body(request: pb.SampleRequest) -> bytes:
    def values(name: str, datatype: str, data: np.ndarray) -> Mapping[str, Any]:
        shape = list(data.shape)
        return {"name": name, "datatype": datatype, "shape": shape, "data": data.ravel().tolist()}

    points = np.frombuffer(request.points.data, "<f4").reshape(tuple(request.points.shape))
    inputs = [
        values("points", "FP32", points),
        values("sample_count", "INT64", np.array(request.sample_counts)),
        values("start", "INT64", np.array(request.start_indices)),
    ]
    return json.dumps({"inputs": inputs}).encode()
