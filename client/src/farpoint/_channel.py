"""gRPC channels of both clients: retry policy, load balancing, keepalive, message sizes."""

import json
from typing import Any

import grpc

from farpoint._security import Security
from farpoint.errors import InvalidArgumentError

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S = 60.0
PLAIN = Security()

_SAMPLING = "farpoint.v1.SamplingService"
_ADMIN = "farpoint.v1.AdminService"
_NOT_RETRIED = [
    # For a retry, all that was sent would have to be kept.
    {"service": _SAMPLING, "method": "SampleStream"},
    {"service": _SAMPLING, "method": "SampleLarge"},
    # These change the server, and an attempt whose answer was lost may have done so.
    {"service": _ADMIN, "method": "LoadModel"},
    {"service": _ADMIN, "method": "UnloadModel"},
    {"service": _ADMIN, "method": "TrimMemory"},
]

# The other methods change nothing on the server, so an attempt may safely be repeated.
_SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        },
        {"name": _NOT_RETRIED},
    ],
    # A failed attempt takes one token, a call that succeeds returns a tenth. With half of the
    # tokens gone nothing is repeated: retries add at most a tenth to the load of a server in
    # trouble, after a burst that lets a few dozen calls survive a restart.
    "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
}

OPTIONS: tuple[tuple[str, Any], ...] = (
    # The server states its own limit (see ServerInfo.limits); gRPC would add one for answers.
    ("grpc.max_receive_message_length", -1),
    # With gRPC's default of 256 KiB a larger request is silently never retried.
    ("grpc.per_rpc_retry_buffer_size", 2**31 - 1),
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # Finds out about a dead peer while a call waits; an idle channel stays silent.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def checked_target(target: str) -> str:
    """`target`, unless it is an HTTP address, which gRPC would take for a host name."""
    if not target or target.startswith(("http://", "https://")):
        raise InvalidArgumentError(
            f"target must be HOST:PORT, dns:///HOST:PORT or unix:PATH, got {target!r}",
            field="target",
        )
    return target


def open_channel(target: str, security: Security = PLAIN) -> grpc.Channel:
    """A channel with this package's defaults; nothing is sent yet."""
    options = OPTIONS + security.options
    if security.credentials is None:
        return grpc.insecure_channel(checked_target(target), options=options)
    return grpc.secure_channel(checked_target(target), security.credentials, options=options)


def open_aio_channel(target: str, security: Security = PLAIN) -> grpc.aio.Channel:
    """As `open_channel`, for asyncio; to be called with the loop running."""
    options = OPTIONS + security.options
    if security.credentials is None:
        return grpc.aio.insecure_channel(checked_target(target), options=options)
    return grpc.aio.secure_channel(checked_target(target), security.credentials, options=options)
