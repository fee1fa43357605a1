"""Open Inference behind its servicer: lists and statistics, also of several processes."""

import time

import pytest
import torch

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import admin_pb2
from farpoint_server.errors import NotFoundError, UnsupportedError
from farpoint_server.models.registry import DEFAULT_NAME
from farpoint_server.services.for_all import METHODS
from farpoint_server.services.model_statistics import ModelStatistics, RequestRecord
from farpoint_server.services.open_inference.repository import ModelRepository


class NoModels:
    """A registry in which nothing is loaded."""

    models = ()
    sources = {DEFAULT_NAME: None}  # noqa: RUF012


def repository(*, is_serving: bool = True) -> ModelRepository:
    devices = [torch.device("cuda:1"), torch.device("cpu")]
    return ModelRepository(NoModels(), ModelStatistics(), devices, lambda: is_serving)


def test_a_model_has_an_instance_on_each_device():
    config = repository().config("fps", "").config
    groups = [(g.name, g.kind, list(g.gpus)) for g in config.instance_group]
    kinds = pb.ModelInstanceGroup
    assert groups == [("fps_0", kinds.KIND_GPU, [1]), ("fps_1", kinds.KIND_CPU, [])]
    with pytest.raises(NotFoundError, match="model_version"):
        repository().config("fps", "2")


def test_the_list_says_what_is_ready():
    def states(one: ModelRepository, **fields) -> list[tuple[str, str, str]]:
        listed = one.index(pb.RepositoryIndexRequest(**fields)).models
        return [(m.name, m.state, m.reason) for m in listed]

    unloaded = (DEFAULT_NAME, "UNAVAILABLE", "unloaded")
    assert states(repository()) == [("fps", "READY", ""), unloaded]
    assert states(repository(), ready=True) == [("fps", "READY", "")]
    broken = repository(is_serving=False)
    assert states(broken) == [("fps", "UNAVAILABLE", "the server is not ready"), unloaded]
    assert states(broken, ready=True) == []
    with pytest.raises(UnsupportedError, match="repository_name: expected none, got 'x'"):
        states(repository(), repository_name="x")


def test_statistics_count_requests_clouds_and_batches():
    one = repository()
    for clouds, batch_requests in ((1, 2), (3, 0), (2, 1)):
        now = time.monotonic_ns()
        ended = RequestRecord(
            "fps", clouds, batch_requests, 0.5, 2.0, now - 9, now - 7, now - 3, now
        )
        one.statistics.noted.append(ended)
    one.statistics.fail("fps", time.monotonic_ns())
    (counted,) = one.describe_statistics("fps", "").model_stats
    assert (counted.inference_count, counted.execution_count) == (6, 2)
    stats = counted.inference_stats
    assert (stats.success.count, stats.fail.count) == (3, 1)
    assert (stats.success.ns, stats.compute_input.ns, stats.compute_output.ns) == (27, 6, 9)
    assert (stats.queue.ns, stats.compute_infer.ns) == (1_500_000, 6_000_000)
    assert [
        (b.batch_size, b.compute_infer.count, b.compute_infer.ns) for b in counted.batch_stats
    ] == [
        (1, 1, 2_000_000),
        (2, 1, 2_000_000),
    ]
    assert abs(counted.last_inference / 1e3 - time.time()) < 60
    one.statistics.forget("fps")
    assert one.describe_statistics("", "").model_stats[0].inference_count == 0


def statistics(name: str, count: int, last: int, *sizes: int) -> pb.ModelStatisticsResponse:
    model = pb.ModelStatistics(name=name, version="1", last_inference=last, inference_count=count)
    model.inference_stats.success.count, model.inference_stats.success.ns = count, 10 * count
    for size in sizes:
        batch = model.batch_stats.add(batch_size=size)
        batch.compute_infer.count = count
    return pb.ModelStatisticsResponse(model_stats=[model])


def test_statistics_of_a_model_are_added_up():
    merge = METHODS["/inference.GRPCInferenceService/ModelStatistics"].merge
    other = statistics("fps", 5, 70, 2, 4)
    other.model_stats.append(statistics("unloaded", 9, 9).model_stats[0])
    merged = merge({0: statistics("fps", 3, 90, 1, 2), 1: other})
    (model,) = merged.model_stats
    assert (model.name, model.version, model.last_inference) == ("fps", "1", 90)
    assert model.inference_count == model.inference_stats.success.count == 8
    assert model.inference_stats.success.ns == 80
    batches = {batch.batch_size: batch.compute_infer.count for batch in model.batch_stats}
    assert batches == {1: 3, 2: 8, 4: 5}


def test_memory_is_that_of_each_process_in_their_order():
    merge = METHODS["/farpoint.v1.AdminService/GetMemory"].merge
    own, other = (
        admin_pb2.GetMemoryResponse(devices=[{"device": "cpu"}], resident_bytes=bytes_)
        for bytes_ in (5, 7)
    )
    merged = merge({1: own, 0: other})
    assert [device.process for device in merged.devices] == [0, 1]
    assert merged.resident_bytes == 12
