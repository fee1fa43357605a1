"""Sample requests of a soak, over gRPC and HTTP, with answers of farpoint_ops and of numpy.

Both run before the load begins, so that a check costs no more than a comparison of bytes. An op
that is wrong shows here already: the two must agree on every cloud.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from google.protobuf import json_format
from tests.support.clouds import covering_radius, furthest_points

from farpoint._rpcs.sample import SampleRpc
from farpoint.v1 import sampling_pb2 as pb
from farpoint_ops import furthest_point_sample

NEAR = 1e-4


class SamplersDisagreeError(Exception):
    """farpoint_ops and brute force choose different points."""


@dataclass(frozen=True)
class SampleCase:
    """A Sample request of B clouds and its only right answer."""

    request: bytes
    lengths: tuple[int, ...]
    indices: bytes
    points: bytes
    radii: tuple[float, ...]
    """Covering radius of each cloud."""

    def is_right(self, answer: pb.SampleResponse) -> bool:
        """Indices, lengths and points bit for bit; radii as near as float32 is."""
        if answer.indices.data != self.indices or tuple(answer.lengths) != self.lengths:
            return False
        distances = np.frombuffer(answer.distances.data, "<f4")
        if answer.points.data != self.points or len(distances) != sum(self.lengths):
            return False
        return np.allclose(distances[np.cumsum(self.lengths) - 1], self.radii, NEAR, NEAR)

    def streamed(self) -> bytes:
        """The same request as a message of a SampleStream."""
        request = pb.SampleRequest.FromString(self.request)
        return pb.SampleStreamRequest(request=request).SerializeToString()


def client_rpc(clouds: Sequence[np.ndarray], m: int, starts: Sequence[int]) -> SampleRpc:
    """The call of a client in plain text, with its request."""
    nonfinite = "reject" if all(np.isfinite(cloud).all() for cloud in clouds) else "ignore"
    return SampleRpc([*clouds], m, None, starts, nonfinite, checksums=True)


def sample_case(
    clouds: Sequence[np.ndarray], m: int, starts: Sequence[int], *, extras: bool = False
) -> SampleCase:
    """A request of m samples of each cloud; with `extras` it asks for points too."""
    seen = [_as_seen(cloud) for cloud in clouds]
    rows = [agreed_rows(cloud, m, start) for cloud, start in zip(seen, starts, strict=True)]
    request = client_rpc(clouds, m, starts).head
    request.return_points = extras
    chosen = [cloud[own] for cloud, own in zip(clouds, rows, strict=True)]
    radii = tuple(
        covering_radius(cloud[np.isfinite(cloud).all(axis=1)], _finite_rows(cloud, own))
        for cloud, own in zip(seen, rows, strict=True)
    )
    return SampleCase(
        request=request.SerializeToString(),
        lengths=(m,) * len(clouds),
        indices=np.concatenate(rows).astype("<i4").tobytes(),
        points=np.concatenate(chosen).tobytes() if extras else b"",
        radii=radii,
    )


def _as_seen(cloud: np.ndarray) -> np.ndarray:
    """In float32; float64 is shifted to its first finite row before, as in the contract."""
    if cloud.dtype == np.float64:
        cloud = cloud - cloud[np.isfinite(cloud).all(axis=1).argmax()]
    return cloud.astype(np.float32)


def _finite_rows(cloud: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same rows, counted without those that are not finite."""
    return (np.isfinite(cloud).all(axis=1).cumsum() - 1)[rows]


def agreed_rows(cloud: np.ndarray, m: int, start: int) -> np.ndarray:
    """Rows that both samplers choose; raises SamplersDisagreeError."""
    rows = furthest_points(cloud, m, start)
    ops = furthest_point_sample(torch.from_numpy(cloud)[None], m, start=start)[0].numpy()
    if not np.array_equal(rows, ops):
        raise SamplersDisagreeError(f"{len(cloud)} points, {m} samples from {start}")
    return rows


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
