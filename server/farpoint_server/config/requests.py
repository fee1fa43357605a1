"""Settings of the limits of requests, of batches and of the end of a server."""

from pydantic import Field
from pydantic_settings import BaseSettings

MIB = 1 << 20


class RequestSettings(BaseSettings):
    """Requests, batches and draining (docs/deployment.md)"""

    max_message_bytes: int = Field(
        256 * MIB,
        ge=1024,
        le=(1 << 30) - 1,
        description="Largest request in bytes. A larger one is INVALID_ARGUMENT; beyond twice the "
        "limit it is not received at all, and RESOURCE_EXHAUSTED.",
    )
    max_request_points: int = Field(
        1 << 24, ge=1, lt=1 << 31, description="Most points of one request, in all of its clouds."
    )
    max_request_clouds: int = Field(1 << 16, ge=1, description="Most clouds of one request.")
    max_points_in_flight: int = Field(
        1 << 25,
        ge=1,
        description="Most points of all accepted requests together; beyond it a request is "
        "RESOURCE_EXHAUSTED at once.",
    )
    max_bytes_in_flight: int = Field(
        512 * MIB,
        ge=1024,
        description="Most bytes of the messages of all accepted requests together, refused as "
        "points are; also the most of one SampleLarge. At the bound the server holds two to three "
        "times as much.",
    )
    caller_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Part of the points and bytes in flight that one caller may hold while others "
        "want some. A caller is a token, or else a network address, or a connection from this "
        "machine.",
    )
    receive_turns: int = Field(
        16,
        ge=1,
        description="Messages received at a time; flow control holds others back. Each needs twice "
        "its size until it is received, in two minutes at most.",
    )
    max_concurrent_rpcs: int = Field(
        2048,
        ge=1,
        description="Most requests open at once, each perhaps with one message; further ones are "
        "RESOURCE_EXHAUSTED, except of callers with a token below their share. Health, reflection "
        "and administration have slots of their own.",
    )
    max_caller_rpcs: int | None = Field(
        None,
        ge=1,
        description="Most requests that one caller has open at once; half of max_concurrent_rpcs "
        "unless given. Raise it behind a proxy.",
    )
    overload_retry_ms: int = Field(
        250,
        ge=0,
        description="Milliseconds after which a refused caller may retry: about a usual batch.",
    )
    batch_points: int = Field(
        1 << 20,
        ge=1,
        description="Points after which a batch takes no further request. Larger batches fill a "
        "GPU better; with smaller ones small requests wait less for large ones.",
    )
    long_work_ms: float = Field(
        30.0,
        ge=0,
        description="Milliseconds of predicted work above which a request is long. Long requests "
        "run at a lower priority, so that short ones pass them; 0 has all of them wait for each "
        "other.",
    )
    engine_timeout_s: float = Field(
        300.0,
        gt=0,
        description="Seconds that a batch may run. Then its callers get UNAVAILABLE, and health is "
        "NOT_SERVING while no other engine is left.",
    )
    drain_grace_s: float = Field(
        0.25,
        ge=0,
        description="Seconds after SIGTERM in which new calls are still accepted, though health is "
        "NOT_SERVING already: for load balancers.",
    )
    drain_timeout_s: float = Field(
        30.0,
        ge=0,
        description="Seconds that accepted calls then have to finish. Keep both together below "
        "the grace period of the orchestrator.",
    )
