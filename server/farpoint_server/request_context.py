"""Context variable with the fields of the current request, for its log line, trace and metrics.

One object in one context variable. structlog's own has a variable for each field, and a line that
is logged copies the context and looks through all of it.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias, TypedDict
from urllib.parse import unquote

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Prefix of the names of callers that have shown a token.
TOKEN_PREFIX = "token:"


class Fields(TypedDict, total=False):
    """What is known of a request so far: its log line has it, metrics and traces read it."""

    request_id: str
    request_index: int
    """Within a stream."""
    method: str
    protocol: str
    caller: str
    """Name of a token."""
    trace_id: str
    model: str
    points: int
    clouds: int
    samples: int
    queue_ms: float
    compute_ms: float


OnEnd: TypeAlias = Callable[[float, Exception | None, Fields], None]


def _ignore_end(seconds: float, error: Exception | None, fields: Fields) -> None:
    """The default observer, outside of an RPC."""


@dataclass(eq=False, slots=True)
class RequestContext:
    """One request."""

    fields: Fields
    """What is known of it so far."""
    on_end: OnEnd = _ignore_end
    """Given its seconds, its error if any, and its fields, when it has ended."""


variable: ContextVar[RequestContext | None] = ContextVar("request", default=None)
"""The current request; None where there is none."""
caller: ContextVar[str] = ContextVar("caller", default="")
"""The caller, for fair turns and shares. A variable of its own, which several packages read on the
way of each request; empty where there is no request."""


def current() -> RequestContext:
    """The current request; an empty one outside of a request."""
    request = variable.get()
    if request is None:
        request = RequestContext({})
        variable.set(request)
    return request


def bind(**fields: "Unpack[Fields]") -> None:
    """Adds fields to the current request."""
    current().fields.update(fields)


def fork(**fields: "Unpack[Fields]") -> None:
    """Starts a request within an RPC: the current task gets its own fields."""
    request = current()
    variable.set(RequestContext(request.fields | fields, request.on_end))


@lru_cache(4096)
def address_of(peer: str) -> str:
    """The address that counts as one caller over all of its connections.

    Args:
        peer: "ipv4:HOST:PORT", "ipv6:%5BHOST%5D:PORT" or "unix:…".

    Returns:
        The host of IPv4, the /64 network of IPv6, which is what one customer gets. Peers on this
        machine have a host in common, so each connection is a caller of its own, as far as gRPC
        tells them apart: those of a unix socket it does not.
    """
    scheme, address = peer.partition(":")[0], _ip_address_of(peer)
    if address is None or address.is_loopback:
        return peer
    if address.version == 4:
        return f"{scheme}:{address}"
    return f"{scheme}:{ip_network((address, 64), strict=False)}"


def _ip_address_of(peer: str) -> IPv4Address | IPv6Address | None:
    host = unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]").partition("%")[0]
    try:
        return ip_address(host)
    except ValueError:
        return None
