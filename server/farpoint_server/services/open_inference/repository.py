"""The models as Triton's model repository: lookup, metadata, list, load and unload."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference import fps
from farpoint_server.codec.open_inference.exported import tensor_sizes
from farpoint_server.codec.open_inference.tensors import VERSION, Sizes
from farpoint_server.errors import InvalidRequestError, NotFoundError, UnsupportedError, quoted
from farpoint_server.kinds.model import LoadedModel
from farpoint_server.models.registry import Registry
from farpoint_server.transport.grpc.handlers import Methods, UnaryFunction, unary_methods

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
READY, UNAVAILABLE = "READY", "UNAVAILABLE"
CONFIG = "config"
PLATFORM = "farpoint"


@dataclass(frozen=True)
class ModelRepository:
    """The built-in model `fps` and the models of the registry."""

    registry: Registry
    devices: Sequence[torch.device]
    is_serving: Callable[[], bool]

    @property
    def names(self) -> list[str]:
        """Names of the loaded models."""
        return [fps.NAME, *(model.name for model in self.registry.models)]

    def find(self, name: str, version: str) -> LoadedModel | None:
        """The model of a name, None for `fps`; raises NotFoundError."""
        names = self.names
        if name not in names:
            expected = f"one of {', '.join(names)}"
            raise NotFoundError(f"model_name: expected {expected}, got {quoted(name)}")
        if version not in ("", VERSION):
            raise NotFoundError(f"model_version: expected {VERSION!r}, got {quoted(version)}")
        return None if name == fps.NAME else self.registry.get(name)

    def is_ready(self, name: str, version: str) -> bool:
        """Whether a model is loaded."""
        return name in self.names and version in ("", VERSION) and self.is_serving()

    def metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        """Inputs and outputs of a model; raises NotFoundError."""
        model = self.find(name, version)
        if model is None:
            return model_metadata(name, fps.INPUTS, fps.OUTPUTS)
        manifest = model.manifest
        inputs = tensor_sizes((manifest.points, *manifest.extra_inputs))
        return model_metadata(name, inputs, tensor_sizes(manifest.outputs))

    def config(self, name: str, version: str) -> pb.ModelConfigResponse:
        """The configuration of a model; raises NotFoundError."""
        optional = fps.OPTIONAL if name == fps.NAME else ()
        return model_config(self.metadata(name, version), optional, self.devices)

    def index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        """Every model that is loaded, was loaded, or can be loaded without a path."""
        _check_repository(request.repository_name)
        response = pb.RepositoryIndexResponse()
        ready = self.names if self.is_serving() else []
        for name in dict.fromkeys((*self.names, *self.registry.sources)):
            if name in ready:
                response.models.add(name=name, version=VERSION, state=READY)
            elif not request.ready:
                reason = "unloaded" if name not in self.names else "the server is not ready"
                response.models.add(name=name, version=VERSION, state=UNAVAILABLE, reason=reason)
        return response

    async def load(self, request: pb.RepositoryModelLoadRequest) -> pb.RepositoryModelLoadResponse:
        """Loads or reloads a model from the path in its configuration, or from its previous path.

        Raises:
            NotFoundError: there is neither.
            InvalidRequestError: it cannot be loaded.
        """
        _check_repository(request.repository_name)
        name, path = request.model_name, _path_of(request.parameters)
        if name == fps.NAME:
            return pb.RepositoryModelLoadResponse()
        if path is None:
            if name not in self.registry.sources:
                known = ", ".join(self.registry.sources)
                raise NotFoundError(
                    f"model_name: expected one of {known}, or a path in the parameters of "
                    f"{CONFIG!r}, got {quoted(name)}"
                )
            path = self.registry.sources[name]
        await self.registry.load(name, path)
        return pb.RepositoryModelLoadResponse()

    async def unload(
        self, request: pb.RepositoryModelUnloadRequest
    ) -> pb.RepositoryModelUnloadResponse:
        """Unloads a model; requests that use it still hold it. Raises NotFoundError."""
        _check_repository(request.repository_name)
        name = request.model_name
        if name == fps.NAME:
            raise InvalidRequestError("model_name", "a loaded model", "'fps', which is built in")
        await self.registry.unload(name)
        return pb.RepositoryModelUnloadResponse()

    def administration(self) -> Methods:
        """Handlers that load and unload models."""
        answers: dict[str, UnaryFunction] = {
            "RepositoryModelLoad": self.load,
            "RepositoryModelUnload": self.unload,
        }
        return unary_methods(DESCRIPTOR, answers)


def _check_repository(name: str) -> None:
    if name:
        raise UnsupportedError(f"repository_name: expected none, got {quoted(name)}")


def _path_of(parameters: Mapping[str, pb.ModelRepositoryParameter]) -> Path | None:
    """The path in the parameters of a model's configuration; None without one."""
    for name in parameters:
        if name.startswith("file:"):
            field = f"parameters[{name[:64]}]"
            raise InvalidRequestError(field, "a path on the server in 'config'", "a file's content")
    if CONFIG not in parameters:
        return None
    try:
        config: Any = json.loads(parameters[CONFIG].string_param)
        path = config.get("parameters", {}).get("path", {}).get("string_value", "")
    except (ValueError, AttributeError, RecursionError):
        path = None
    if not isinstance(path, str):
        expected = 'JSON such as {"parameters": {"path": {"string_value": "FILE"}}}'
        got = quoted(parameters[CONFIG].string_param)
        raise InvalidRequestError(f"parameters[{CONFIG}]", expected, got)
    return Path(path) if path else None


def model_metadata(name: str, inputs: Sizes, outputs: Sizes) -> pb.ModelMetadataResponse:
    """Inputs and outputs of a model."""
    tensor = pb.ModelMetadataResponse.TensorMetadata
    return pb.ModelMetadataResponse(
        name=name,
        versions=[VERSION],
        platform=PLATFORM,
        inputs=[tensor(name=n, datatype=type_, shape=s) for n, (type_, s) in inputs.items()],
        outputs=[tensor(name=n, datatype=type_, shape=s) for n, (type_, s) in outputs.items()],
    )


def model_config(
    metadata: pb.ModelMetadataResponse, optional: Collection[str], devices: Sequence[torch.device]
) -> pb.ModelConfigResponse:
    """The configuration of a model."""
    config = pb.ModelConfig(
        name=metadata.name,
        platform=PLATFORM,
        backend=PLATFORM,
        input=[
            pb.ModelInput(
                name=t.name,
                data_type=pb.DataType.Value(f"TYPE_{t.datatype}"),
                dims=t.shape,
                optional=t.name in optional,
            )
            for t in metadata.inputs
        ],
        output=[
            pb.ModelOutput(
                name=t.name, data_type=pb.DataType.Value(f"TYPE_{t.datatype}"), dims=t.shape
            )
            for t in metadata.outputs
        ],
        model_transaction_policy=pb.ModelTransactionPolicy(decoupled=False),
    )
    for index, device in enumerate(devices):
        is_cpu = device.type == "cpu"
        config.instance_group.add(
            name=f"{metadata.name}_{index}",
            kind=pb.ModelInstanceGroup.KIND_CPU if is_cpu else pb.ModelInstanceGroup.KIND_GPU,
            count=1,
            gpus=() if is_cpu else [device.index or 0],
        )
    return pb.ModelConfigResponse(config=config)
