"""The models as Open Inference sees them: lookup, metadata, configuration and list."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference import fps
from farpoint_server.codec.open_inference.exported import tensor_sizes
from farpoint_server.codec.open_inference.messages import VERSION, Sizes
from farpoint_server.errors import NotFoundError, UnsupportedError, quoted
from farpoint_server.kinds.model import LoadedModel
from farpoint_server.models.registry import Registry

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
READY, UNAVAILABLE = "READY", "UNAVAILABLE"
PLATFORM = "farpoint"


@dataclass(frozen=True)
class ModelRepository:
    """The built-in model `fps` and the models of the registry."""

    registry: Registry
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
        return model_config(self.metadata(name, version), optional)

    def index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        """The loaded models."""
        if request.repository_name:
            got = quoted(request.repository_name)
            raise UnsupportedError(f"repository_name: expected none, got {got}")
        is_ready = self.is_serving()
        state, reason = (READY, "") if is_ready else (UNAVAILABLE, "the server is not ready")
        names = self.names if is_ready or not request.ready else ()
        model = pb.RepositoryIndexResponse.ModelIndex
        return pb.RepositoryIndexResponse(
            models=[model(name=n, version=VERSION, state=state, reason=reason) for n in names]
        )


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
    metadata: pb.ModelMetadataResponse, optional: Collection[str]
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
    return pb.ModelConfigResponse(config=config)
