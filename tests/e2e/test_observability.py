"""Observability of a running server: metrics, health over HTTP, traces, limits."""

from concurrent import futures

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.messages import sample_request
from tests.support.servers.server_process import RunningServer, wait_until

import farpoint

SAMPLE = "farpoint.v1.SamplingService/Sample"
CLOUD = np.random.default_rng(3).normal(size=(1000, 3)).astype(np.float32)
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def collector():
    """The address of an OpenTelemetry collector, and the spans that it has received."""
    trace = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    spans = []

    def export(request, _):
        for resource in request.resource_spans:
            spans.extend(span for scope in resource.scope_spans for span in scope.spans)
        return trace.ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export,
        trace.ExportTraceServiceRequest.FromString,
        trace.ExportTraceServiceResponse.SerializeToString,
    )
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_registered_method_handlers(service, {"Export": handler})
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}", spans
    server.stop(None).wait()


@pytest.fixture(scope="module")
def observed(collector):
    server = RunningServer(
        *("--http-listen", "127.0.0.1:0", "--otlp-endpoint", collector[0]),
        *("--max-connections", "2"),
    )
    yield server
    server.stop()


def test_calls_phases_batches_and_memory_are_in_the_metrics(observed):
    before = observed.metrics()
    with farpoint.Client(observed.address) as client:
        client.sample(CLOUD, 10)
        with pytest.raises(farpoint.InvalidArgumentError):
            client.sample(CLOUD * np.nan, 10)
    # A call is counted when it has ended, which its caller may know a moment earlier.
    failed = f"farpoint_rpcs_total{{code=INVALID_ARGUMENT,rpc={SAMPLE}}}"
    wait_until(lambda: failed in observed.metrics())
    after = observed.metrics()

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown(f"farpoint_rpcs_total{{code=OK,rpc={SAMPLE}}}") == 1
    assert grown(failed) == 1
    assert grown("farpoint_refusals_total{reason=invalid_request}") == 1
    assert grown("farpoint_batch_points_sum{}") == 1000
    for phase in ("queue", "compute", "convert"):
        assert grown(f"farpoint_phase_seconds_count{{phase={phase},rpc={SAMPLE}}}") == 1
    assert after["farpoint_queue_requests{}"] == after["farpoint_points_in_flight{}"] == 0
    assert after["farpoint_memory_reserved_bytes{device=cpu}"] > 0
    assert after["farpoint_serving{}"] == 1


def test_a_call_is_a_span_of_the_callers_trace_and_names_it_in_the_log(observed, collector):
    with observed.connected() as stub:
        header = ("traceparent", f"00-{TRACE_ID}-{PARENT_ID}-01")
        stub.Sample(sample_request(CLOUD, 10), metadata=[header, ("x-request-id", "traced")])
        with pytest.raises(grpc.RpcError):
            stub.Sample(sample_request(CLOUD, 10000), metadata=[header])
    with grpc.insecure_channel(observed.address) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    line = observed.wait_for(lambda line: line.get("request_id") == "traced")
    assert line["trace_id"] == TRACE_ID
    assert observed.stop() == 0  # which sends what waits
    spans = [span for span in collector[1] if span.trace_id.hex() == TRACE_ID]
    assert [(span.name, span.parent_span_id.hex()) for span in spans] == [(SAMPLE, PARENT_ID)] * 2
    fields = {a.key: a.value for a in spans[0].attributes}
    assert fields["farpoint.request_id"].string_value == "traced"
    assert fields["farpoint.points"].int_value == 1000
    assert fields["farpoint.compute_ms"].double_value > 0
    assert [span.status.message for span in spans] == ["", "INVALID_ARGUMENT"]
    assert not [span for span in collector[1] if "health" in span.name.lower()]
