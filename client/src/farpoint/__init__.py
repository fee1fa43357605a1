"""Python client of the Farpoint point cloud sampling service.

    import farpoint

    with farpoint.Client("127.0.0.1:50051") as client:
        sample = client.sample(points, 1024)
        sample.indices, sample.points, sample.covering_radius

`farpoint.sample(points, 1024)` does the same by the server that FARPOINT_SERVER names.
`AsyncClient` has the same methods as `Client`, awaited. `farpoint.io` reads and writes cloud files.
"""

from farpoint import io
from farpoint._async_client import AsyncClient
from farpoint._balancing.hedging import Hedging
from farpoint._client import Client
from farpoint._default import sample
from farpoint._security import Tls
from farpoint.errors import (
    CancelledError,
    CloudFileError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    FarpointError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from farpoint.memory import DeviceMemory, Memory, Trim, TrimTotal
from farpoint.models import Encoding, Inference, Model, ModelTensor, Stage
from farpoint.packed import PackedCloud, PackedField
from farpoint.results import Device, Limits, Sample, ServerInfo, StreamedSample, Timings

__all__ = [
    "AsyncClient",
    "CancelledError",
    "Client",
    "CloudFileError",
    "DataLossError",
    "DeadlineExceededError",
    "Device",
    "DeviceMemory",
    "Encoding",
    "FailedPreconditionError",
    "FarpointError",
    "Hedging",
    "Inference",
    "InternalError",
    "InvalidArgumentError",
    "Limits",
    "Memory",
    "Model",
    "ModelTensor",
    "NotFoundError",
    "PackedCloud",
    "PackedField",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "Sample",
    "ServerInfo",
    "Stage",
    "StreamedSample",
    "Timings",
    "Tls",
    "Trim",
    "TrimTotal",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "io",
    "sample",
]
