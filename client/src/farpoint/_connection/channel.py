"""gRPC channels of both clients: many servers, retries, keepalive, message sizes."""

import json
from typing import Any

import grpc

from farpoint._connection.security import Security
from farpoint._connection.targets import checked_target, grpc_target
from farpoint.errors import InvalidArgumentError

PLAIN = Security()

# Every RPC of the contract is in one of the two. These change nothing on the server, so an attempt
# may be repeated; once a response has begun gRPC repeats nothing, and keeps nothing for it.
REPEATED = {
    "farpoint.v1.SamplingService": (
        "Sample",
        "SampleStream",
        "SampleLarge",
        "Encode",
        "ListModels",
        "GetServerInfo",
    ),
    "farpoint.v1.AdminService": ("GetMemory",),
    "inference.GRPCInferenceService": (
        "ServerLive",
        "ServerReady",
        "ServerMetadata",
        "ModelReady",
        "ModelMetadata",
        "ModelConfig",
        "ModelInfer",
        "ModelStreamInfer",
        "RepositoryIndex",
    ),
}
# These change the server, and an attempt whose answer was lost may have done so.
NOT_REPEATED = {
    "farpoint.v1.AdminService": ("LoadModel", "UnloadModel", "TrimMemory"),
}

# Half of gRPC's most tokens.
_MAX_BUDGET = 500
DEFAULT_BUDGET = 50

OPTIONS: tuple[tuple[str, Any], ...] = (
    # The server states its own limit (see ServerInfo.limits); gRPC would add one for answers.
    ("grpc.max_receive_message_length", -1),
    # With gRPC's default of 256 KiB a larger request is silently never retried.
    ("grpc.per_rpc_retry_buffer_size", 2**31 - 1),
    # A second after a refused connection, by default, retries are used up; a process of a server
    # that is killed may refuse one while the others serve.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # By default two minutes: a server that comes back is found within a second.
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A server that hangs, or is gone without closing, is noticed in 20 s while a call waits for it;
    # then the call is repeated elsewhere. An idle channel stays silent.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Keepalive waits for a ping that measures the bandwidth, by default for a minute.
    ("grpc.http2.ping_timeout_ms", 10_000),
    # By default gRPC sends only two pings during a call.
    ("grpc.http2.max_pings_without_data", 0),
)


def check_retry_budget(budget: int) -> None:
    """Raises InvalidArgumentError for a budget that gRPC does not take."""
    if not 0 <= budget <= _MAX_BUDGET:
        raise InvalidArgumentError(
            f"retry_budget must be 0 to {_MAX_BUDGET} attempts, got {budget!r}",
            field="retry_budget",
        )


def _service_config(retry_budget: int) -> str:
    repeated = {
        "name": [
            {"service": service, "method": method}
            for service, methods in REPEATED.items()
            for method in methods
        ],
        "retryPolicy": {
            "maxAttempts": 4,
            "initialBackoff": "0.1s",
            "maxBackoff": "2s",
            "backoffMultiplier": 2,
            # A server that shuts down cancels what reaches it in the last moment. What this
            # side cancels is not repeated.
            "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
        },
    }
    # A failed attempt takes one token, a call that succeeds returns a tenth. With half of the
    # tokens gone nothing is repeated: retries add at most a tenth to the load of a server in
    # trouble, after a burst that lets the calls survive that one server had when it ended.
    throttling = {"maxTokens": max(1, 2 * retry_budget), "tokenRatio": 0.1}
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [repeated],
        "retryThrottling": throttling,
    }
    return json.dumps(config)


def open_channel(
    target: str, security: Security = PLAIN, retry_budget: int = DEFAULT_BUDGET
) -> grpc.Channel:
    """A channel with this package's defaults; nothing is sent yet."""
    channel: grpc.Channel = _open(grpc, target, security, retry_budget)
    return channel


def open_aio_channel(
    target: str, security: Security = PLAIN, retry_budget: int = DEFAULT_BUDGET
) -> grpc.aio.Channel:
    """Like `open_channel`, for asyncio; call it while the loop runs."""
    channel: grpc.aio.Channel = _open(grpc.aio, target, security, retry_budget)
    return channel


def _open(api: Any, target: str, security: Security, retry_budget: int) -> Any:
    address, own = grpc_target(checked_target(target))
    config = ("grpc.service_config", _service_config(retry_budget))
    options = (*OPTIONS, config, *own, *security.options)
    if security.credentials is None:
        return api.insecure_channel(address, options=options)
    return api.secure_channel(address, security.credentials, options=options)
