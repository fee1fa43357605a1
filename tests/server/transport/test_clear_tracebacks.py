"""Of a call that failed nothing stays in memory, also where no garbage collector runs."""

import asyncio
import gc
import weakref
from unittest.mock import AsyncMock, Mock

import grpc
import pytest

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.scheduling.admission import Admission
from farpoint_server.services.stream import SampleStream
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight, Outgoing

ONE_POINT = sampling_pb2.SampleRequest(
    points=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 3], data=bytes(12)),
    sample_counts=[1],
)
METHOD = "/farpoint.test.Service/Method"


class Message:
    """The message of the handler; bytes themselves cannot be watched."""


async def refuse(message):  # noqa: ARG001
    raise OverloadedError("full", retry_ms=5)


async def meet_a_bug(message):
    raise KeyError(type(message))


async def explain(message):
    try:
        int(message)
    except TypeError as error:
        raise InvalidRequestError("field", "a number", "something else") from error


async def wait_for_work_that_fails(message):  # noqa: ARG001
    work = asyncio.get_running_loop().create_future()
    work.set_exception(OverloadedError("full", retry_ms=5))
    await work


async def fail_on_another_thread(message):
    await asyncio.to_thread(int, message)


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "fail", [refuse, meet_a_bug, explain, wait_for_work_that_fails, fail_on_another_thread]
)
@pytest.mark.usefixtures("without_collector")
async def test_a_failed_call_leaves_nothing_of_its_message(fail):
    messages = []

    async def behavior(_, context):  # noqa: ARG001
        message = Message()
        messages.append(weakref.ref(message))
        await fail(message)

    handler = grpc.stream_unary_rpc_method_handler(behavior)
    server = grpc.aio.server(interceptors=[RequestInterceptor(InFlight())])
    service = grpc.method_handlers_generic_handler("farpoint.test.Service", {"Method": handler})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary(METHOD)(b"hello")
    await server.stop(None)
    (message,) = messages
    assert message() is None


@pytest.mark.usefixtures("without_collector")
async def test_a_failed_request_of_a_stream_leaves_nothing_either():
    messages = []

    async def answer(*_):
        message = Message()
        messages.append(weakref.ref(message))
        await wait_for_work_that_fails(message)

    request = sampling_pb2.SampleStreamRequest(request=ONE_POINT).SerializeToString()
    context = AsyncMock(
        read=AsyncMock(side_effect=[request, grpc.aio.EOF]),
        invocation_metadata=Mock(return_value=()),
        time_remaining=Mock(return_value=None),
    )
    outgoing = Outgoing(Admission(1, 1, 1))
    pipeline = Mock(run=answer, limits=RequestLimits(100, 1, 1), regions=None)
    await SampleStream(context, pipeline, outgoing, 300).run(asyncio.Event())
    (written,) = context.write.await_args.args
    assert sampling_pb2.SampleStreamResponse.FromString(written).error.message == "full"
    (message,) = messages
    assert message() is None
