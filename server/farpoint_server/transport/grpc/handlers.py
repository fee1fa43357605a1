"""gRPC method handlers: of unary methods, and every method as one that reads messages."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from farpoint_server.codec.wire import read_message
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.errors import (
    DeadlinePassedError,
    InvalidRequestError,
    ServiceError,
    UnsupportedError,
)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Method: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Methods: TypeAlias = Mapping[str, Method]
"""Handlers by the names of their methods."""
UnaryFunction: TypeAlias = Callable[[Any], Message] | Callable[[Any], Awaitable[Message]]
Behavior: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"

# Messages read here are small; handlers of large ones read them for themselves.
MESSAGE_S = 10.0


def adapt(handler: Method, guard: Callable[[Behavior], Behavior]) -> Handler:
    """A handler that runs a method's behavior behind `guard`, before any message is read.

    gRPC itself reads the one message of a method before it calls it; a call without a message would
    be open and not counted. On the wire a message and a stream of one are the same, so each method
    takes a stream, and those of one message read it behind the guard.
    """
    behavior: Behavior = getattr(handler, kind_of(handler))
    if inspect.isasyncgenfunction(behavior):
        behavior = write_all(behavior)
    make: Callable[..., Handler] = (
        grpc.stream_stream_rpc_method_handler
        if handler.response_streaming
        else grpc.stream_unary_rpc_method_handler
    )
    if not handler.request_streaming:
        behavior = _read_first(behavior)
    elif handler.request_deserializer is not None:  # else nothing fails to parse
        behavior = _raising(behavior)
    return make(
        guard(behavior),
        request_deserializer=_tolerant(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )


def kind_of(handler: Method) -> str:
    """ "unary_unary", "stream_unary", "unary_stream" or "stream_stream"."""
    sends = "stream" if handler.request_streaming else "unary"
    return f"{sends}_{'stream' if handler.response_streaming else 'unary'}"


async def read_end(context: Context) -> None:
    """Raises for a call that ended without a message: CancelledError if it broke off.

    A call that broke off looks the same until gRPC cancels it. To send anything tells: it returns
    on a call that is up, and only there.

    Raises:
        InvalidRequestError: the caller sent no message.
    """
    await context.send_initial_metadata(())
    raise InvalidRequestError("request", "one message", "none")


def parse_error(data: bytes) -> InvalidRequestError:
    """The error for bytes that are not a valid message."""
    return InvalidRequestError("request", "a serialized message", f"{len(data)} other bytes")


def _read_first(behavior: Behavior) -> Behavior:
    """Passes a method the first message of its stream."""

    async def read_first(_: Any, context: Context) -> Any:
        try:
            request = await asyncio.wait_for(context.read(), MESSAGE_S)
        except asyncio.TimeoutError:
            raise DeadlinePassedError("the message did not arrive in time") from None
        if request is grpc.aio.EOF:
            await read_end(context)
        if isinstance(request, ServiceError):
            raise request
        return await behavior(request, context)

    return read_first


def _raising(behavior: Behavior) -> Behavior:
    """Passes a method its stream, in which an error raises itself."""

    async def read(messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for message in messages:
            if isinstance(message, ServiceError):
                raise message
            yield message

    return lambda messages, context: behavior(read(messages), context)


def write_all(generate: Callable[[Any, Context], AsyncIterator[Any]]) -> Behavior:
    """A coroutine function that writes the answers that a method yields."""

    async def write_all(request: Any, context: Context) -> None:
        async for answer in generate(request, context):
            await context.write(answer)

    return write_all


def _tolerant(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Returns the error for bytes that do not parse: gRPC itself would answer INTERNAL."""

    def parse(data: bytes) -> Message | InvalidRequestError:
        try:
            return deserialize(data)  # type: ignore[misc,no-any-return]
        except DecodeError:
            return parse_error(data)
        except InvalidRequestError as error:
            return error

    return None if deserialize is None else parse


def unary_methods(service: ServiceDescriptor, answers: Mapping[str, UnaryFunction]) -> Methods:
    """Handlers that call a function with the message, whose repeated fields are bounded."""
    return {
        name: grpc.unary_unary_rpc_method_handler(
            partial(_call, answer), _bounded(service.methods_by_name[name].input_type), _serialize
        )
        for name, answer in answers.items()
    }


def _bounded(message: Descriptor) -> Callable[[bytes], Message]:
    kind: type[Message] = message_factory.GetMessageClass(message)
    return partial(read_message, kind=kind, check=limits_of(kind))  # type: ignore[arg-type]


def refusals(names: Iterable[str], text: str) -> Methods:
    """Handlers that answer UNIMPLEMENTED with their name and a text."""
    # They read no message. On the wire a message and a stream of one are the same.
    return {
        name: grpc.stream_unary_rpc_method_handler(partial(_refuse, f"{name}{text}"))
        for name in names
    }


async def _call(answer: UnaryFunction, request: Message, _: Context) -> Message:
    response = answer(request)
    return response if isinstance(response, Message) else await response


async def _refuse(text: str, _: object, __: Context) -> None:
    raise UnsupportedError(text)


def _serialize(response: Message) -> bytes:
    return response.SerializeToString()
