"""The one message of a call, received when there is room for it."""

import asyncio
from typing import Any

import grpc

from farpoint_server.errors import InvalidRequestError
from farpoint_server.scheduling.admission import Admission, Receiving
from farpoint_server.transport.interceptor import Context

# A call that gRPC broke off looks like one without a message until it is cancelled.
BROKEN_OFF_S = 1.0


async def receive(context: Context, admission: Admission, receiving: Receiving) -> bytes:
    """The bytes of the first message of a call whose handler reads for itself.

    Raises:
        OverloadedError: there is no room; nothing was received.
        InvalidRequestError: the caller sent no message.
    """
    admission.check_room()
    raw: Any = await receiving.receive(context.read)
    if raw is grpc.aio.EOF:
        await asyncio.sleep(BROKEN_OFF_S)
        raise InvalidRequestError("request", "one message", "none")
    return bytes(raw)
