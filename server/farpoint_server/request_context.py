"""Context variable with the fields of the current request, for its log line, trace and metrics.

One object in one context variable. structlog's own has a variable for each field, and a line that
is logged copies the context and looks through all of it.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

from structlog.typing import EventDict, WrappedLogger

Fields: TypeAlias = dict[str, Any]
OnEnd: TypeAlias = Callable[[float, Exception | None, Fields], None]


def _ignore_end(seconds: float, error: Exception | None, fields: Fields) -> None:
    """Outside of an RPC nobody is told."""


class RequestContext:
    """One request.

    Attributes:
        fields: What is known of it so far.
        on_end: Given its seconds, its error if any, and its fields, when it has ended.
    """

    __slots__ = ("fields", "on_end")

    def __init__(self, fields: Fields, on_end: OnEnd = _ignore_end) -> None:
        self.fields = fields
        self.on_end = on_end


_current: ContextVar[RequestContext | None] = ContextVar("request", default=None)


def current() -> RequestContext:
    """The current request; one without fields where there is none."""
    request = _current.get()
    if request is None:
        request = RequestContext({})
        _current.set(request)
    return request


def bind(**fields: Any) -> None:
    """Adds fields to the current request."""
    current().fields.update(fields)


def begin(on_end: OnEnd, **fields: Any) -> Fields:
    """Begins the request of an RPC, with the fields that its interceptors have bound already."""
    known = _current.get()
    if known is not None:
        fields = known.fields | fields
    _current.set(RequestContext(fields, on_end))
    return fields


def fork(**fields: Any) -> None:
    """Begins a request within an RPC: from now on the current task has fields of its own."""
    request = current()
    _current.set(RequestContext(request.fields | fields, request.on_end))


def merge(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """structlog processor: a line takes from the current request what it does not say itself."""
    request = _current.get()
    return event if request is None else {**request.fields, **event}
