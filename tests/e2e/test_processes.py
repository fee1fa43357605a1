"""Two processes that are one server: calls, metrics, administration, a death, a drain.

One server for all of it, since each start takes seconds; the last test ends it.
"""

import os
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager

import grpc
import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.messages import sample_request
from tests.support.servers.server_process import READY_TIMEOUT_S, RunningServer, wait_until

import farpoint
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2, sampling_pb2_grpc
from farpoint_models import DensityEncoder, EncoderConfig, save_encoder, weights

ANY = "127.0.0.1:0"
CLOUD = np.random.default_rng(3).normal(size=(1000, 3)).astype(np.float32)
SMALL = CLOUD[:100]


@pytest.fixture(scope="module")
def server():
    server = RunningServer(
        *("--processes", "2", "--http-listen", ANY, "--probe-listen", ANY, "--admin-listen", ANY),
        *("--drain-grace-s", "1"),
        *("--max-points-in-flight", "30000", "--max-request-points", "30000"),
        batch_s=1.0,
    )
    yield server
    server.process.kill()
    server.wait()


@contextmanager
def connections(server: RunningServer, count: int = 12):
    """Channels that each have a connection of their own; the kernel deals them out."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(server.address, options=options))
            for _ in range(count)
        ]
        for channel in channels:
            grpc.channel_ready_future(channel).result(READY_TIMEOUT_S)
        yield channels


def pids(server: RunningServer) -> dict[int | str, int]:
    """The process in each place, as the log says."""
    lines = [line for line in server.log if line["event"] == "process ready"]
    return {line["process"]: line["pid"] for line in lines}


def probe(server: RunningServer, path: str) -> bytes:
    address = server.ready["probe_address"]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read()


def models(channel: grpc.Channel) -> dict[str, bytes]:
    """The description of each model, by name."""
    stub = sampling_pb2_grpc.SamplingServiceStub(channel)
    listed = stub.ListModels(sampling_pb2.ListModelsRequest()).models
    return {model.name: model.SerializeToString() for model in listed}


def test_connections_are_dealt_out_and_metrics_and_health_are_of_all_processes(server):
    name = "farpoint_rpcs_total{{code=OK,process={},rpc=farpoint.v1.SamplingService/Sample}}"
    before = server.metrics()
    expected = furthest_points(SMALL, 9).tolist()
    with connections(server) as channels:
        stubs = [sampling_pb2_grpc.SamplingServiceStub(channel) for channel in channels]
        answers = [stub.Sample(sample_request(SMALL, 9)).indices.data for stub in stubs]
    assert [np.frombuffer(data, "<i4").tolist() for data in answers] == [expected] * 12
    for index in (0, 1):
        server.wait_for(lambda line: line.get("method") == "Sample" and line["process"] == index)  # noqa: B023
    metrics = server.metrics()
    assert [metrics[f"farpoint_serving{{process={process}}}"] for process in (0, 1)] == [1, 1]
    counts = [metrics[name.format(p)] - before.get(name.format(p), 0) for p in (0, 1)]
    assert sum(counts) == 12
    assert probe(server, "/readyz") == probe(server, "/healthz") == b"SERVING\n"


def test_a_client_of_a_port_for_each_process_calls_all_alike():
    with RunningServer("--processes", "2", "--listen", "127.0.0.2:0") as server:

        def served() -> list[int]:
            lines = [line["process"] for line in server.log if line.get("method") == "Sample"]
            return [lines.count(0), lines.count(1)]

        addresses = server.ready["addresses"]
        assert [address.rpartition(":")[0] for address in addresses] == ["127.0.0.1", "127.0.0.2"]
        with farpoint.Client(",".join(addresses)) as client:
            calls: list[farpoint.Sample] = []

            def call() -> None:
                calls.append(client.sample(SMALL, 9))

            # Until both connections are up.
            wait_until(lambda: call() or all(served()), served)
            wait_until(lambda: sum(served()) == len(calls), served)
            before = served()
            for _ in range(20):
                call()
            wait_until(lambda: sum(served()) == len(calls), served)
        assert [now - then for now, then in zip(served(), before, strict=True)] == [10, 10]


def test_limits_are_those_of_the_server(server):
    with connections(server) as channels:
        stubs = [sampling_pb2_grpc.SamplingServiceStub(channel) for channel in channels] * 3
        calls = [stub.Sample.future(sample_request(CLOUD, 9)) for stub in stubs]
        codes = [call.code() for call in calls]
    assert codes.count(grpc.StatusCode.OK) in (30, 31)  # two may be admitted at the same moment
    assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 36 - codes.count(grpc.StatusCode.OK)


def test_administration_has_one_owner_and_all_processes_follow(server):
    with connections(server) as channels:
        stub = admin_pb2_grpc.AdminServiceStub(channels[0])
        memory = stub.GetMemory(admin_pb2.GetMemoryRequest())
        assert [d.device for d in memory.devices] == ["cpu"]
        trims = stub.TrimMemory(admin_pb2.TrimMemoryRequest(force=True)).trims
        assert [trim.device for trim in trims] == ["cpu"]
        stub.LoadModel(admin_pb2.LoadModelRequest(name="second", path=str(weights.DEFAULT)))
        assert {tuple(models(channel)) for channel in channels} == {("density_small", "second")}
        stub.UnloadModel(admin_pb2.UnloadModelRequest(name="second"))
        assert {tuple(models(channel)) for channel in channels} == {("density_small",)}
        with pytest.raises(grpc.RpcError) as caught:
            stub.UnloadModel(admin_pb2.UnloadModelRequest(name="second"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_models_that_are_loaded_at_the_same_time_end_alike_in_all_processes(server, tmp_path):
    files = [tmp_path / f"{attributes}.safetensors" for attributes in (1, 2)]
    for attributes, file in enumerate(files, 1):
        save_encoder(DensityEncoder(EncoderConfig(attributes=attributes)), file)
    with connections(server) as channels:
        stubs = [admin_pb2_grpc.AdminServiceStub(channel) for channel in channels]
        for stub, other in zip(stubs, reversed(stubs), strict=True):
            loads = [
                caller.LoadModel.future(admin_pb2.LoadModelRequest(name="twin", path=str(file)))
                for caller, file in zip((stub, other), files, strict=True)
            ]
            assert all(load.result() for load in loads)
            assert len({models(channel)["twin"] for channel in channels}) == 1
        stubs[0].UnloadModel(admin_pb2.UnloadModelRequest(name="twin"))


def test_a_front_end_that_is_killed_is_replaced(server):
    """The new one has the models that were loaded since the start, and the other one serves."""
    load = admin_pb2.LoadModelRequest(name="second", path=str(weights.DEFAULT))
    with connections(server, 1) as channels:
        admin_pb2_grpc.AdminServiceStub(channels[0]).LoadModel(load)
    former = pids(server)[1]
    os.kill(former, signal.SIGKILL)
    server.wait_for(lambda line: line["event"] == "process ended" and line["process"] == 1)
    assert probe(server, "/readyz") == b"SERVING\n"
    with farpoint.Client(server.address) as client:
        assert len(client.sample(SMALL, 9)) == 9
    server.wait_for(
        lambda line: (
            (line["event"], line.get("process")) == ("process ready", 1) and line["pid"] != former
        )
    )
    with connections(server) as channels:
        assert {tuple(models(channel)) for channel in channels} == {("density_small", "second")}


def test_an_engine_that_is_killed_is_replaced_with_its_models(server):
    """Front ends say meanwhile that they are not ready, and answer what needs no engine."""
    former = pids(server)["engine"]
    with connections(server) as channels:
        os.kill(former, signal.SIGKILL)
        wait_until(lambda: not_ready(server))
        assert {tuple(models(channel)) for channel in channels} == {("density_small", "second")}
        with pytest.raises(grpc.RpcError) as caught:
            admin_pb2_grpc.AdminServiceStub(channels[0]).GetMemory(admin_pb2.GetMemoryRequest())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        server.wait_for(
            lambda line: (
                (line["event"], line.get("process")) == ("process ready", "engine")
                and line["pid"] != former
            )
        )
        wait_until(lambda: not not_ready(server))
        assert {tuple(models(channel)) for channel in channels} == {("density_small", "second")}
        with farpoint.Client(server.address) as client:
            assert len(client.encode(CLOUD, model="second").stages) > 0
            assert len(client.sample(np.tile(CLOUD, (30, 1)), 3000)) == 3000


def not_ready(server: RunningServer) -> bool:
    """Whether the process that gets a connection of the probe is not ready."""
    try:
        return probe(server, "/readyz") != b"SERVING\n"
    except urllib.error.HTTPError as error:
        return error.code == 503


def test_a_signal_reaches_all_processes_and_what_they_accepted_is_answered(server):
    expected = furthest_points(CLOUD, 9).tolist()
    with connections(server) as channels:
        stubs = [sampling_pb2_grpc.SamplingServiceStub(channel) for channel in channels]
        calls = [stub.Sample.future(sample_request(CLOUD, 9)) for stub in stubs]
        wait_until(
            lambda: sum(server.metrics()[f"farpoint_calls{{process={p}}}"] for p in (0, 1)) == 12
        )
        server.signal(signal.SIGTERM)
        answers = [call.result().indices.data for call in calls]
    assert [np.frombuffer(data, "<i4").tolist() for data in answers] == [expected] * 12
    assert server.wait() == 0
    draining = [line for line in server.log if line["event"] == "draining"]
    assert {line["process"] for line in draining} == {0, 1}
    assert sum(line["calls"] for line in draining) == 12
    assert server.log[-1] | {"timestamp": ""} == {
        **{"event": "stopped", "processes": 2, "exit_status": 0, "level": "info"},
        "timestamp": "",
    }
