"""Python client of the Farpoint point cloud sampling service.

    import farpoint

    with farpoint.Client("127.0.0.1:50051") as client:
        sample = client.sample(points, 1024)
        sample.indices, sample.points, sample.covering_radius

`farpoint.sample(points, 1024)` does the same with the server in FARPOINT_SERVER.
`AsyncClient` has the same methods as `Client`, awaited. `farpoint.io` reads and writes cloud files,
and `farpoint.testing` runs a server for tests.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farpoint import errors as errors
    from farpoint import io as io
    from farpoint import memory as memory
    from farpoint import models as models
    from farpoint import packed as packed
    from farpoint import results as results
    from farpoint import testing as testing
    from farpoint._async_client import AsyncClient as AsyncClient
    from farpoint._client import Client as Client
    from farpoint._connection.security import Tls as Tls
    from farpoint._default import sample as sample
    from farpoint._rpcs.methods import PoissonDisk as PoissonDisk
    from farpoint._rpcs.methods import RandomSampling as RandomSampling
    from farpoint._rpcs.methods import VoxelGrid as VoxelGrid
    from farpoint.errors import CancelledError as CancelledError
    from farpoint.errors import CloudFileError as CloudFileError
    from farpoint.errors import DataLossError as DataLossError
    from farpoint.errors import DeadlineExceededError as DeadlineExceededError
    from farpoint.errors import FailedPreconditionError as FailedPreconditionError
    from farpoint.errors import FarpointError as FarpointError
    from farpoint.errors import InternalError as InternalError
    from farpoint.errors import InvalidArgumentError as InvalidArgumentError
    from farpoint.errors import MissingFileError as MissingFileError
    from farpoint.errors import NotFoundError as NotFoundError
    from farpoint.errors import PermissionDeniedError as PermissionDeniedError
    from farpoint.errors import ResourceExhaustedError as ResourceExhaustedError
    from farpoint.errors import UnauthenticatedError as UnauthenticatedError
    from farpoint.errors import UnavailableError as UnavailableError
    from farpoint.errors import UnimplementedError as UnimplementedError
    from farpoint.memory import DeviceMemory as DeviceMemory
    from farpoint.memory import Memory as Memory
    from farpoint.memory import Trim as Trim
    from farpoint.memory import TrimTotal as TrimTotal
    from farpoint.models import Encoding as Encoding
    from farpoint.models import Inference as Inference
    from farpoint.models import Model as Model
    from farpoint.models import ModelTensor as ModelTensor
    from farpoint.models import Stage as Stage
    from farpoint.packed import PackedCloud as PackedCloud
    from farpoint.packed import PackedField as PackedField
    from farpoint.results import Device as Device
    from farpoint.results import Limits as Limits
    from farpoint.results import Sample as Sample
    from farpoint.results import ServerInfo as ServerInfo
    from farpoint.results import StreamedSample as StreamedSample
    from farpoint.results import Timings as Timings

    __version__: str

# A module is imported when one of its names is used, so `import farpoint` does not load gRPC.
_MODULES = {
    "_async_client": "AsyncClient",
    "_client": "Client",
    "_default": "sample",
    "_rpcs.methods": "PoissonDisk RandomSampling VoxelGrid",
    "_connection.security": "Tls",
    "errors": (
        "CancelledError CloudFileError DataLossError DeadlineExceededError FailedPreconditionError "
        "FarpointError InternalError InvalidArgumentError MissingFileError NotFoundError "
        "PermissionDeniedError ResourceExhaustedError UnauthenticatedError UnavailableError "
        "UnimplementedError"
    ),
    "memory": "DeviceMemory Memory Trim TrimTotal",
    "models": "Encoding Inference Model ModelTensor Stage",
    "packed": "PackedCloud PackedField",
    "results": "Device Limits Sample ServerInfo StreamedSample Timings",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = ("errors", "io", "memory", "models", "packed", "results", "testing")
__all__ = sorted([*_SUBMODULES, *_HOMES])

if not TYPE_CHECKING:  # else every name would pass a type checker

    def __getattr__(name: str) -> object:
        from importlib import import_module, metadata

        if name == "__version__":
            return metadata.version("farpoint")
        if name in _SUBMODULES:
            return import_module(f"farpoint.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"farpoint.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
