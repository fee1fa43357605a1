"""Calls by the Connect protocol, through the interceptor of the gRPC servers, without a server."""

import asyncio
import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs
from tests.support.rpc import AsgiCaller, ask

from farpoint_server import request_context
from farpoint_server.app.services import HEALTH, register
from farpoint_server.codec import json_form
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.health import Health
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.http import exchange as exchange_module
from farpoint_server.transport.http.calls import HttpContext, UnaryCalls
from farpoint_server.transport.http.connect import ConnectApp, ProtoForm
from farpoint_server.transport.http.exchange import INLINE_BYTES, BodyLimits, Exchange
from farpoint_server.transport.http.server import make_app
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.sockets import peer_name

CHECK = "/grpc.health.v1.Health/Check"
PROTO, JSON = {"content_type": "application/proto"}, {"content_type": "application/json"}
Code = grpc.StatusCode
SERVING = health_pb2.HealthCheckResponse(status="SERVING").SerializeToString()


class Service(Health):
    """Does what the name of the service asks for; counts calls that ended."""

    def __init__(self) -> None:
        super().__init__([])
        self.seen, self.ended, self.begun = [], [], asyncio.Event()

    async def Check(self, request, context):  # noqa: N802
        context.add_done_callback(lambda _: self.ended.append(request.service))
        self.seen.append((context.invocation_metadata(), context.peer()))
        self.remaining_s = context.time_remaining()
        self.fields = dict(request_context.current().fields)
        self.begun.set()
        match request.service:
            case "wait":
                await asyncio.Event().wait()
            case "invalid":
                raise InvalidRequestError("service", "another", "this")
            case "full":
                raise OverloadedError("no room", 250)
            case "bug":
                raise RuntimeError("secret")
        return health_pb2.HealthCheckResponse(status=int(request.service or 1))


@pytest.fixture
def port():
    """The application of an HTTP port with a page, a route and the service."""
    threads, service = ThreadPoolExecutor(1), Service()

    def make(needs_certificate=False, max_bytes=1 << 18):
        limits = BodyLimits(Admission(10, 1 << 20), threads, max_bytes, 1)
        calls = UnaryCalls(RequestInterceptor(InFlight()))
        register([calls], HEALTH, service.methods())
        connect = ConnectApp(Exchange(calls, limits, needs_certificate), [HEALTH])
        route = Route("/route", lambda _: PlainTextResponse("route"))
        make.admission, make.limits, make.calls = limits.admission, limits, calls
        return make_app([route], connect, PlainTextResponse("page"))

    make.service = service
    yield make
    threads.shutdown()


def asked(service=""):
    return health_pb2.HealthCheckRequest(service=service).SerializeToString()


async def post(app, body=b"", path=CHECK, **headers):
    return await ask(app, path, "POST", body, **headers)


async def test_a_call_is_answered_in_either_form_with_its_id(port):
    app = port()
    answer = await post(app, asked("2"), x_request_id="mine", a="b", **PROTO)
    assert (answer.status, answer.body) == (200, b"\x08\x02")
    assert answer.headers == {
        **{"content-type": "application/proto", "content-length": "2", "x-request-id": "mine"}
    }
    ((metadata, peer),) = port.service.seen
    assert {("x-request-id", "mine"), ("a", "b")} < {*metadata}
    assert peer == "ipv4:192.0.2.1:80"
    assert port.service.fields["protocol"] == "connect"
    assert port.service.ended == ["2"]
    answer = await post(app, b"{}", content_type="Application/JSON; charset=UTF-8")
    assert (answer.status, answer.json) == (200, {"status": "SERVING"})
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.headers["x-request-id"]) == 32
    answer = await post(app, x_request_id="x" * 129, **PROTO)
    ids = [value for name, value in port.service.seen[-1][0] if name == "x-request-id"]
    assert ids == [answer.headers["x-request-id"]]


@pytest.mark.parametrize("read", [None, bytes])
async def test_a_large_answer_of_another_form_is_written_on_a_thread(port, read):
    async def large(request, context):  # noqa: ARG001
        return request + bytes(INLINE_BYTES)

    port()
    handler = grpc.unary_unary_rpc_method_handler(large)
    port.calls.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("a.B", {"C": handler}),)
    )
    threads = []

    class OtherForm(ProtoForm):
        def write(self, raw):
            threads.append(threading.current_thread() is threading.main_thread())
            return super().write(raw)

    form = OtherForm()
    form.read = read
    exchange = Exchange(port.calls, port.limits, needs_certificate=False)

    async def app(scope, receive, send):
        await exchange.run(scope, receive, send, "/a.B/C", form)

    assert len((await post(app, b"a")).body) == INLINE_BYTES + 1
    assert threads == [read is None]


async def test_files_and_routes_are_no_calls(port):
    app = port()
    assert [(await ask(app, "/a", verb)).body for verb in ("GET", "HEAD")] == [b"page"] * 2
    assert (await ask(app, "/route")).body == b"route"
    assert (await ask(app, "/route/")).body == b"page"
    answer = await ask(app, CHECK, "PUT")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        (CHECK, {"content_type": "text/plain"}, 415, "invalid_argument"),
        (CHECK, {"content_type": "application/grpc-web+proto"}, 415, "invalid_argument"),
        (CHECK, {"content_type": "application/json; charset=latin-1"}, 415, "invalid_argument"),
        (CHECK, {"content_type": "application/proto; charset=utf-8"}, 415, "invalid_argument"),
        (CHECK, {}, 415, "invalid_argument"),
        (CHECK, {**PROTO, "connect_protocol_version": "2"}, 400, "invalid_argument"),
        (CHECK, {**PROTO, "connect_timeout_ms": "1s"}, 400, "invalid_argument"),
        (CHECK, {**PROTO, "connect_timeout_ms": "²"}, 400, "invalid_argument"),
        (CHECK, {**PROTO, "connect_timeout_ms": "1" * 11}, 400, "invalid_argument"),
        (CHECK, {**PROTO, "content_encoding": "gzip"}, 501, "unimplemented"),
        ("/grpc.health.v1.Health/Watch", PROTO, 501, "unimplemented"),
        ("/grpc.health.v1.Health/Nothing", PROTO, 404, "unimplemented"),
        ("/grpc.health.v1.Nothing/Check", PROTO, 404, "unimplemented"),
    ],
)
async def test_what_is_no_call_is_refused(port, path, headers, status, code):
    answer = await post(port(), b"", path, **headers)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert ("accept-post" in answer.headers) == (status == 415)
    assert port.service.seen == []


async def test_json_has_a_bound_of_its_own(port):
    length = str(json_form.MAX_BYTES + 1)
    app = port(max_bytes=1 << 30)
    assert (
        f"at most {json_form.MAX_BYTES} bytes"
        in ((await post(app, b"", content_length=length, **JSON)).json["message"])
    )
    assert (await post(app, b"", content_length=length, **PROTO)).body == SERVING


async def test_versions_and_deadlines_that_are_right_go_through(port):
    right = {"connect_protocol_version": "1", "connect_timeout_ms": "9" * 10}
    assert (await post(port(), **PROTO, **right, content_encoding="identity")).body == SERVING
    assert 9_999_900 < port.service.remaining_s < 10_000_000


async def test_without_a_certificate_there_are_no_calls_where_one_is_needed(port):
    app = port(needs_certificate=True)
    answer = await post(app, **PROTO)
    assert (answer.status, answer.json["code"]) == (401, "unauthenticated")
    assert "client certificate" in answer.json["message"]
    assert (await post(app, **PROTO, state={"has_certificate": True})).body == SERVING


@pytest.mark.parametrize("form", [PROTO, JSON])
async def test_errors_have_the_code_message_details_and_id_of_grpc(port, form):
    def body(service):
        return asked(service) if form is PROTO else json.dumps({"service": service}).encode()

    app = port()
    answer = await post(app, body("invalid"), x_request_id="mine", **form)
    assert answer.headers["x-request-id"] == "mine"
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
    assert answer.json["message"] == "service: expected another, got this"
    (detail,) = answer.json["details"]
    assert detail["type"] == "google.rpc.BadRequest"
    answer = await post(app, body("full"), **form)
    assert (answer.status, answer.json["code"]) == (429, "resource_exhausted")
    (detail,) = answer.json["details"]
    assert "=" not in detail["value"]
    delay = error_details_pb2.RetryInfo.FromString(base64.b64decode(detail["value"] + "=="))
    assert delay.retry_delay.ToMilliseconds() == 250
    assert port.service.ended == ["invalid", "full"]


@pytest.mark.parametrize(("body", "form"), [(b"\xff", PROTO), (b"[]", JSON), (b'{"a":1}', JSON)])
async def test_a_body_that_is_no_message_is_an_invalid_argument(port, body, form):
    answer = await post(port(), body, **form)
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("form", [PROTO, JSON])
async def test_a_bug_is_internal_without_its_text_and_logged_once(port, form, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret")

    app = port()
    kind = "ProtoForm" if form is PROTO else "JsonForm"
    monkeypatch.setattr(f"farpoint_server.transport.http.connect.{kind}.write", fail)
    with capture_logs() as log:
        answer = await post(app, b"" if form is PROTO else b"{}", x_request_id="mine", **form)
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert "secret" not in answer.json["message"]
    assert "mine" in answer.json["message"]
    assert [(line["status"], line["log_level"]) for line in log] == [("INTERNAL", "error")]


async def test_a_deadline_that_passes_cancels_the_call_and_is_answered(port):
    answer = await post(port(), asked("wait"), **PROTO, connect_timeout_ms="50")
    assert (answer.status, answer.json["code"]) == (504, "deadline_exceeded")
    assert port.service.ended == ["wait"]


async def test_a_caller_that_leaves_cancels_the_call_and_gets_nothing(port):
    caller = AsgiCaller(asked("wait"))
    running = asyncio.ensure_future(caller.run(port(), CHECK, "POST", **PROTO))
    await port.service.begun.wait()
    assert not running.done()
    caller.left.set()
    assert (await running, port.service.ended) == (None, ["wait"])


@pytest.mark.parametrize("more", [0, 1])
async def test_an_answer_is_sent_in_pieces_of_which_the_last_one_ends_it(more):
    caller, size = AsgiCaller(), exchange_module.PIECE_BYTES
    body = bytes(range(256)) * (size // 256) + b"a" * more
    await exchange_module.send_all(caller.send, exchange_module.HttpResponse(200, (), body))
    assert caller.sent[0]["headers"] == [(b"content-length", str(len(body)).encode())]
    parts = caller.sent[1:]
    assert b"".join(part["body"] for part in parts) == body
    assert [len(part["body"]) for part in parts] == ([size, 1, 0] if more else [size])
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]


def context(deadline=None, body=b"message"):
    async def receive():
        return body

    return HttpContext((("a", "b"),), "ipv4:127.0.0.1:1", deadline, receive)


@pytest.mark.parametrize(
    ("client", "peer", "caller"),
    [
        (("192.0.2.7", 80), "ipv4:192.0.2.7:80", "ipv4:192.0.2.7"),
        (("::ffff:192.0.2.7", 80), "ipv4:192.0.2.7:80", "ipv4:192.0.2.7"),
        (("2001:db8::7", 80), "ipv6:%5B2001:db8::7%5D:80", "ipv6:2001:db8::/64"),
        (("127.0.0.1", 80), "ipv4:127.0.0.1:80", "ipv4:127.0.0.1:80"),
        (("::1", 80), "ipv6:%5B::1%5D:80", "ipv6:%5B::1%5D:80"),
        (("unknown", 0), "unknown:0", "unknown:0"),
    ],
)
def test_a_caller_is_the_same_one_as_over_grpc(client, peer, caller):
    assert peer_name(*client) == peer
    assert request_context.address_of(peer) == caller


async def test_an_abort_without_details_has_the_status_of_its_code_and_message():
    call = context()
    with pytest.raises(grpc.aio.AbortError):
        await call.abort(grpc.StatusCode.NOT_FOUND, "none")
    assert call.status() == status_pb2.Status(code=5, message="none")


def test_time_runs_out_and_does_not_become_negative():
    assert context().time_remaining() is None
    assert 0 < context(time.monotonic() + 100).time_remaining() <= 100
    assert context(time.monotonic() - 1).time_remaining() == 0
