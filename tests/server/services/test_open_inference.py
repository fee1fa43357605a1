"""Open Inference behind its servicer: lists, and what the engine's process owns."""

from collections import Counter

import pytest

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import admin_pb2, sampling_pb2
from farpoint_server.app.owned import METHODS
from farpoint_server.errors import UnsupportedError
from farpoint_server.services.open_inference.repository import ModelRepository


class NoModels:
    """A registry in which nothing is loaded."""

    models = ()


def repository(*, is_serving: bool = True) -> ModelRepository:
    return ModelRepository(NoModels(), lambda: is_serving)


def test_the_index_lists_what_is_ready():
    def states(one: ModelRepository, **fields) -> list[tuple[str, str, str]]:
        listed = one.index(pb.RepositoryIndexRequest(**fields)).models
        return [(m.name, m.state, m.reason) for m in listed]

    for only_ready in (False, True):
        assert states(repository(), ready=only_ready) == [("fps", "READY", "")]
    broken = repository(is_serving=False)
    assert states(broken) == [("fps", "UNAVAILABLE", "the server is not ready")]
    assert states(broken, ready=True) == []
    with pytest.raises(UnsupportedError, match="repository_name: expected none, got 'x'"):
        states(repository(), repository_name="x")


# A front end answers these: work, and what each front end knows. A new RPC must be here or in
# METHODS, or it changes one of several processes.
BY_FRONT_ENDS = """
Sample SampleStream SampleLarge Encode ListModels GetServerInfo
ServerLive ServerReady ServerMetadata ModelReady ModelMetadata ModelConfig RepositoryIndex
ModelInfer ModelStreamInfer
"""


def test_each_rpc_of_the_contract_is_answered_by_a_front_end_or_by_the_engine():
    contract = [
        f"/{service.full_name}/{method.name}"
        for file in (sampling_pb2, admin_pb2, pb)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    alone = [path for path in contract if path.rpartition("/")[2] in BY_FRONT_ENDS.split()]
    assert Counter([*alone, *METHODS]) == Counter(contract)
    assert len(alone) == len(BY_FRONT_ENDS.split())
