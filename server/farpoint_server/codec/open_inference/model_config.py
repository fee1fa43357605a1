"""Open Inference messages about models: Triton's configuration, and statistics."""

from collections.abc import Iterable, Sequence

import torch

from farpoint_server.codec.open_inference.points import VERSION
from farpoint_server.codec.open_inference.tensors import PLATFORM
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb


def model_config(
    metadata: pb.ModelMetadataResponse, optional: Iterable[str], devices: Sequence[torch.device]
) -> pb.ModelConfigResponse:
    """The configuration of a model.

    Args:
        metadata: What it takes and gives.
        optional: Inputs that may be left out.
        devices: Where it runs.
    """
    name, left_out = metadata.name, set(optional)
    config = pb.ModelConfig(
        name=name,
        platform=PLATFORM,
        backend=PLATFORM,
        input=[
            pb.ModelInput(
                name=t.name,
                data_type=_type(t.datatype),
                dims=t.shape,
                optional=t.name in left_out,
            )
            for t in metadata.inputs
        ],
        output=[
            pb.ModelOutput(name=t.name, data_type=_type(t.datatype), dims=t.shape)
            for t in metadata.outputs
        ],
        instance_group=[_instance_group(name, i, device) for i, device in enumerate(devices)],
        model_transaction_policy=pb.ModelTransactionPolicy(decoupled=False),
    )
    return pb.ModelConfigResponse(config=config)


def model_statistics(
    name: str,
    last_ms: int,
    inferences: int,
    executions: int,
    phases: Iterable[tuple[str, int, int]],
    batches: Iterable[tuple[int, int, int]],
) -> pb.ModelStatistics:
    """The statistics of a model.

    Args:
        name: Of the model.
        last_ms: When the last request ended, in milliseconds since 1970.
        inferences: Clouds of the requests that succeeded.
        executions: Batches of these.
        phases: Field of InferStatistics, count, and nanoseconds.
        batches: Requests of a batch, how many such batches there were, and nanoseconds.
    """
    duration = pb.StatisticDuration
    return pb.ModelStatistics(
        name=name,
        version=VERSION,
        last_inference=last_ms,
        inference_count=inferences,
        execution_count=executions,
        inference_stats=pb.InferStatistics(
            **{phase: duration(count=count, ns=ns) for phase, count, ns in phases}
        ),
        batch_stats=[
            pb.InferBatchStatistics(batch_size=size, compute_infer=duration(count=count, ns=ns))
            for size, count, ns in batches
        ],
    )


def _type(datatype: str) -> pb.DataType.ValueType:
    return pb.DataType.Value(f"TYPE_{datatype}")


def _instance_group(name: str, index: int, device: torch.device) -> pb.ModelInstanceGroup:
    if device.type == "cpu":
        kind = pb.ModelInstanceGroup.KIND_CPU
        return pb.ModelInstanceGroup(name=f"{name}_{index}", kind=kind, count=1)
    gpus = [device.index or 0]
    kind = pb.ModelInstanceGroup.KIND_GPU
    return pb.ModelInstanceGroup(name=f"{name}_{index}", kind=kind, count=1, gpus=gpus)
