"""Open Inference messages about models: metadata, Triton's configuration, and statistics."""

from collections.abc import Collection, Sequence

import torch

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference.tensors import VERSION, Sizes

PLATFORM = "farpoint"


def model_metadata(name: str, inputs: Sizes, outputs: Sizes) -> pb.ModelMetadataResponse:
    """What a model takes and gives."""
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
    """The configuration of a model.

    Args:
        metadata: What it takes and gives.
        optional: Inputs that may be left out.
        devices: Where it runs.
    """
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
