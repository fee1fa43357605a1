"""What is added up of the answers of several processes."""

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import admin_pb2
from farpoint_server.services.for_all import METHODS


def statistics(name: str, count: int, last: int, *sizes: int) -> pb.ModelStatisticsResponse:
    model = pb.ModelStatistics(name=name, version="1", last_inference=last, inference_count=count)
    model.inference_stats.success.count, model.inference_stats.success.ns = count, 10 * count
    for size in sizes:
        batch = model.batch_stats.add(batch_size=size)
        batch.compute_infer.count = count
    return pb.ModelStatisticsResponse(model_stats=[model])


def test_statistics_of_a_model_are_added_up():
    _, merge = METHODS["/inference.GRPCInferenceService/ModelStatistics"]
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
    _, merge = METHODS["/farpoint.v1.AdminService/GetMemory"]
    own, other = (
        admin_pb2.GetMemoryResponse(devices=[{"device": "cpu"}], resident_bytes=bytes_)
        for bytes_ in (5, 7)
    )
    merged = merge({1: own, 0: other})
    assert [device.process for device in merged.devices] == [0, 1]
    assert merged.resident_bytes == 12
