"""What is added up of the answers of several processes."""

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.services.everywhere import METHODS


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
    merged = merge(statistics("fps", 3, 90, 1, 2), {1: other.SerializeToString()})
    (model,) = merged.model_stats
    assert (model.name, model.version, model.last_inference) == ("fps", "1", 90)
    assert model.inference_count == model.inference_stats.success.count == 8
    assert model.inference_stats.success.ns == 80
    batches = {batch.batch_size: batch.compute_infer.count for batch in model.batch_stats}
    assert batches == {1: 3, 2: 8, 4: 5}
