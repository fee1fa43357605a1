"""Start, health and end of a server process."""

import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from tests.support.clouds import furthest_points
from tests.support.messages import sample_request
from tests.support.servers.http_caller import HTTP, HttpCaller
from tests.support.servers.server_process import failed_start, wait_until

import farpoint
from farpoint.inference import open_inference_pb2 as pb
from farpoint.inference import open_inference_pb2_grpc
from farpoint.v1 import sampling_pb2, sampling_pb2_grpc

SERVICE = "farpoint.v1.SamplingService"
RANDOM = np.random.default_rng(11)
CLOUD = RANDOM.normal(size=(1000, 3)).astype(np.float32)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_answers_every_accepted_request_and_exits_with_0(start, number):
    server = start("--batch-points", "10000", "--drain-grace-s", "1", batch_s=0.3)
    expected = furthest_points(CLOUD, 40).tolist()
    with server.connected() as stub:
        calls = [stub.Sample.future(sample_request(CLOUD, 40)) for _ in range(50)]
        is_first = threading.Event()
        for call in calls:
            call.add_done_callback(lambda _: is_first.set())
        assert is_first.wait(30)
        server.signal(number)
        answers = [call.result().indices.data for call in calls]
    assert server.wait() == 0
    assert [np.frombuffer(data, "<i4").tolist() for data in answers] == [expected] * 50
    draining = next(line for line in server.log if line["event"] == "draining")
    assert draining["calls"] > 10, "the signal came too late to mean anything"


def test_a_draining_server_sends_callers_away_on_every_port_and_finishes_accepted_calls(start):
    server = start("--drain-grace-s", "2", *HTTP, batch_s=4)
    go_on, request = threading.Event(), sample_request(CLOUD, 20)
    sensor = itertools.chain(
        [sampling_pb2.SampleStreamRequest(request=request)], iter(go_on.wait, True)
    )
    with grpc.insecure_channel(server.address) as channel, HttpCaller(server) as http:
        stub = sampling_pb2_grpc.SamplingServiceStub(channel)
        stock = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        assert stock.ServerReady(pb.ServerReadyRequest()).ready
        accepted, stream = stub.Sample.future(request), stub.SampleStream(sensor)
        server.wait_for_metric("farpoint_points_in_flight", lambda points: points == 2 * len(CLOUD))
        server.signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        for path in ("/healthz", "/readyz"):
            assert http.request("GET", path).status == 503
        assert not stock.ServerReady(pb.ServerReadyRequest()).ready
        assert not stock.ModelReady(pb.ModelReadyRequest(name="fps")).ready
        assert stock.ServerLive(pb.ServerLiveRequest()).live
        assert http.call("GetServerInfo", b"").headers["connection"] == "close"
        wait_until(lambda: not listens(server.ready["http_address"]))
        wait_until(lambda: not listens(server.address))
        # The latter in the moment before its connection knows.
        with pytest.raises(grpc.RpcError, match=r"Connection refused|CANCELLED"):
            stub.Sample(request)
        assert len(accepted.result().indices.data) == 4 * 20
        assert next(stream).HasField("response")
        with pytest.raises(grpc.RpcError) as caught:
            next(stream)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        go_on.set()
    assert server.wait() == 0


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as peer:
        return peer.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("flags", [["--drain-timeout-s", "0.2"], []])
def test_a_drain_ends_at_its_timeout_or_at_a_second_signal(start, flags):
    server = start(*flags, *HTTP, batch_s=20)
    with server.connected() as stub:
        call = stub.Sample.future(sample_request(CLOUD, 1))
        server.wait_for_metric("farpoint_calls", lambda calls: calls == 1)
        server.signal(signal.SIGTERM)
        assert server.wait_for(lambda line: line["event"] == "draining")["calls"] == 1
        if not flags:
            server.signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as caught:
            call.result()
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    begun = time.monotonic()
    assert server.wait() == 1
    assert time.monotonic() - begun < 10
    stopped = server.wait_for(lambda line: line["event"] == "stopped")
    assert (stopped["unanswered"], stopped["level"]) == (1, "warning")


def test_work_of_a_caller_that_left_does_not_delay_the_end(start):
    server = start(batch_s=20)
    with server.connected() as stub, pytest.raises(grpc.RpcError):
        stub.Sample(sample_request(CLOUD, 1), timeout=0.3)
    server.signal(signal.SIGTERM)
    begun = time.monotonic()
    assert server.wait() == 0
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_every_service_and_health_knows_it(channel, version):
    reflect = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    ask = reflection_pb2.ServerReflectionRequest
    (listed,) = reflect(iter([ask(list_services="")]))
    names = {service.name for service in listed.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= names
    for answer in reflect(iter([ask(file_containing_symbol=name) for name in names])):
        (file, *_) = answer.file_descriptor_response.file_descriptor_proto
        assert FileDescriptorProto.FromString(file).service
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", SERVICE, "grpc.health.v1.Health"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_server_info(client):
    info = client.server_info()
    assert [device.name for device in info.devices] == ["cpu"]
    assert info.methods == ("farthest_point", "voxel_grid", "random", "poisson_disk")
    assert info.limits.message_bytes == 4 << 20


def test_a_request_is_one_line_in_the_log(stub, server):
    stub.Sample(sample_request(CLOUD, 5), metadata=[("x-request-id", "one-line")])
    line = server.wait_for(lambda line: line.get("request_id") == "one-line")
    assert (line["event"], line["method"], line["status"]) == ("request", "Sample", "OK")
    assert (line["points"], line["clouds"], line["samples"]) == (1000, 1, 5)
    assert 0 < line["compute_ms"] <= line["server_ms"]
    assert line["queue_ms"] >= 0


LONG = f"unix:/tmp/{'x' * 150}"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--listen", "{used}"], "--listen {used}: cannot be bound: Address already in use"),
        (["--shared-memory-listen", LONG], f"--shared-memory-listen {LONG}: cannot be bound: AF_"),
        (["--tls-certificate", "no.pem", "--tls-key", "no.key"], "--tls-key no.key: No such file"),
        (["--tokens-file", "none"], "--tokens-file none: No such file or directory"),
        (["--device", "cuda:77"], "--device cuda:77: "),
    ],
)
def test_an_error_at_the_start_is_one_line(server, flags, reason):
    status, (*log, last) = failed_start(*(flag.format(used=server.address) for flag in flags))
    assert status == 2
    assert last.startswith(f"farpoint-server: {reason.format(used=server.address)}")
    assert {json.loads(line)["event"] for line in log} <= {"allocator"}


def test_a_second_server_leaves_the_sockets_of_the_first_alone(start, tmp_path):
    grpc_at, memory_at = f"unix:{tmp_path}/grpc", f"unix:{tmp_path}/memory"
    first = start("--listen", grpc_at, "--shared-memory-listen", memory_at)
    for flag, address in (("--listen", grpc_at), ("--shared-memory-listen", memory_at)):
        status, lines = failed_start(flag, address)
        assert status == 2
        reason = f"farpoint-server: {flag} {address}: cannot be bound: Address already in use"
        assert lines[-1] == reason
    with farpoint.Client(grpc_at, shared_memory=memory_at) as client:
        assert len(client.sample(CLOUD, 9)) == 9
    first.process.kill()
    first.wait()
    again = start("--listen", grpc_at, "--shared-memory-listen", memory_at)
    with farpoint.Client(grpc_at, shared_memory=memory_at) as client:
        assert len(client.sample(CLOUD, 9)) == 9
    assert again.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_standard_error_does_not_start():
    # Closed by a shell: gRPC may abort a fork of this process that runs Python before its exec.
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "farpoint_server"]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert ended.stdout.startswith("farpoint-server: standard error is closed")


def test_a_server_whose_log_is_not_read_goes_on():
    command = [sys.executable, "-m", "farpoint_server", "--listen", "127.0.0.1:0"]
    command += ["--device", "cpu", "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pipesize=4096) as process:
        lines = map(json.loads, iter(process.stderr.readline, ""))
        address = next(line["address"] for line in lines if line["event"] == "ready")
        with farpoint.Client(address) as client:  # each call is a line of some 300 bytes
            for _ in range(40):
                client.sample(CLOUD[:10], 1, timeout=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
