"""Results of Sample and GetServerInfo as frozen dataclasses: numpy arrays and plain values."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farpoint._types import Array
from farpoint.errors import FarpointError
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2


@dataclass(frozen=True)
class Timings:
    """Time of each step of a call, in milliseconds; the clouds of a batch share one object."""

    queue_ms: float
    """Time in the server from acceptance to the start of the work."""
    compute_ms: float
    """Time in the server's engine."""
    server_ms: float
    """Time in the server from arrival to answer; queue and compute are part of it."""
    wire_ms: float
    """Time outside the server: sending, receiving, packing and unpacking."""
    total_ms: float
    """Time that the caller waited."""


@dataclass(frozen=True, repr=False, eq=False)
class Sample:
    """m points sampled from a cloud of N points, in order of choice.

    Every prefix is a sample: the first k rows are the sample of size k. Only a `VoxelGrid` returns
    points in the order of the rows.
    """

    indices: NDArray[np.int64]
    """(m,) int64, rows of the cloud as passed; they index numpy arrays and torch tensors."""
    points: Array
    """(m, 3), the points at these rows, in the type of the cloud; or the means of voxels, float64
    for a float64 cloud and float32 for others."""
    attributes: Array | dict[str, Array] | None
    """The attributes at these rows, in the form in which they were passed."""
    distances: NDArray[np.float32]
    """(m,) float32, in the unit of the coordinates: entry i is the covering radius of the first
    i + 1 samples, the largest distance from any point of the cloud to its nearest sample. (0,) for
    `VoxelGrid` and `RandomSampling`."""
    timings: Timings
    origin: NDArray[np.float64] | None
    """(3,) float64: the origin that the server subtracted before it narrowed to float32; None if
    it subtracted nothing."""
    request_id: str

    @property
    def covering_radius(self) -> float:
        """Largest distance from any finite point of the cloud to its nearest sample.

        Raises:
            ValueError: the sample of a `VoxelGrid` or `RandomSampling` has no distances.
        """
        if not len(self.distances):
            raise ValueError("a voxel grid and random rows have no covering distances")
        return float(self.distances[-1])

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        points = f"{self.points.dtype}{list(self.points.shape)}"
        radius = f"covering_radius={self.covering_radius:.6g}, " if len(self.distances) else ""
        return (
            f"Sample(indices=int64[{len(self)}], points={points}, "
            f"attributes={_shapes(self.attributes)}, "
            f"{radius}total_ms={self.timings.total_ms:.3g})"
        )


def _shapes(attributes: Array | dict[str, Array] | None) -> str:
    if attributes is None:
        return "None"
    if isinstance(attributes, dict):
        return "{" + ", ".join(f"{k}: {_shapes(v)}" for k, v in attributes.items()) + "}"
    return f"{attributes.dtype}{list(attributes.shape)}"


@dataclass(frozen=True, eq=False)
class StreamedSample:
    """The answer to one cloud of a stream: a sample or an error."""

    index: int
    """Index of the cloud in the stream, from 0."""
    sample: Sample | None
    error: FarpointError | None

    def result(self) -> Sample:
        """The sample; raises the error if there is none."""
        if self.sample is None:
            raise self.error or FarpointError("no answer")
        return self.sample


@dataclass(frozen=True)
class Device:
    """A CPU or GPU that serves requests."""

    name: str
    """Name in torch: "cpu", "cuda:0"."""
    description: str


@dataclass(frozen=True)
class Limits:
    """Limits of one request."""

    message_bytes: int
    request_points: int
    request_clouds: int


@dataclass(frozen=True)
class ServerInfo:
    """A server's version, devices, methods and limits."""

    version: str
    torch_version: str
    devices: tuple[Device, ...]
    methods: tuple[str, ...]
    """Names of sampling methods, such as "farthest_point"."""
    point_types: tuple[str, ...]
    """Types accepted for points, for example "float32"."""
    limits: Limits


def read_server_info(response: pb.GetServerInfoResponse) -> ServerInfo:
    """Converts a GetServerInfoResponse."""
    limits = response.limits
    return ServerInfo(
        version=response.version,
        torch_version=response.torch_version,
        devices=tuple(Device(d.name, d.description) for d in response.devices),
        methods=tuple(member_name(pb.SamplingMethod, method) for method in response.methods),
        point_types=tuple(member_name(tensor_pb2.DataType, t) for t in response.point_types),
        limits=Limits(limits.message_bytes, limits.request_points, limits.request_clouds),
    )


def member_name(enum: Any, value: int) -> str:
    """The name of an enum value without its prefix; the number if this client does not know it."""
    if value not in enum.values():
        return str(value)
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.DESCRIPTOR.name).upper()
    name: str = enum.Name(value)
    return name.removeprefix(f"{prefix}_").lower()
