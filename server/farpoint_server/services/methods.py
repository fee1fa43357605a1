"""Handlers of unary methods, from the contract and functions."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from farpoint_server.errors import UnsupportedError
from farpoint_server.transport.handlers import Context

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Methods: TypeAlias = Mapping[str, Handler]
"""Handlers by the names of their methods."""
Answer: TypeAlias = Callable[[Any], Message] | Callable[[Any], Awaitable[Message]]


def unary_methods(service: ServiceDescriptor, answers: Mapping[str, Answer]) -> Methods:
    """Handlers that call a function with the message."""
    return {
        name: grpc.unary_unary_rpc_method_handler(
            partial(_call, answer),
            message_factory.GetMessageClass(service.methods_by_name[name].input_type).FromString,
            _serialize,
        )
        for name, answer in answers.items()
    }


def refusals(names: Iterable[str], text: str) -> Methods:
    """Handlers that answer UNIMPLEMENTED with their name and a text."""
    # They read no message. On the wire a message and a stream of one are the same.
    return {
        name: grpc.stream_unary_rpc_method_handler(partial(_refuse, f"{name}{text}"))
        for name in names
    }


async def _call(answer: Answer, request: Message, _: Context) -> Message:
    response = answer(request)
    return response if isinstance(response, Message) else await response


async def _refuse(text: str, _: object, __: Context) -> None:
    raise UnsupportedError(text)


def _serialize(response: Message) -> bytes:
    return response.SerializeToString()
