"""The request at hand: what its log line, its trace and the metrics say of it.

One object in one context variable. structlog's own has a variable for each field, and a line that
is logged copies the context and looks through all of it.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

from structlog.typing import EventDict, WrappedLogger

Fields: TypeAlias = dict[str, Any]
OnEnd: TypeAlias = Callable[[float, Exception | None, Fields], None]


def _uncounted(seconds: float, error: Exception | None, fields: Fields) -> None:
    """Outside of a call nobody counts."""


class Call:
    """One request.

    Attributes:
        fields: What is known of it so far.
        on_end: Given its seconds, its error if any, and its fields, when it has ended.
    """

    __slots__ = ("fields", "on_end")

    def __init__(self, fields: Fields, on_end: OnEnd = _uncounted) -> None:
        self.fields = fields
        self.on_end = on_end


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def current() -> Call:
    """The request at hand; one without fields where there is none."""
    call = _call.get()
    if call is None:
        call = Call({})
        _call.set(call)
    return call


def bind(**fields: Any) -> None:
    """Adds to what is known of the request at hand."""
    current().fields.update(fields)


def begin(on_end: OnEnd, **fields: Any) -> Fields:
    """A call begins, of which its interceptors may have said something already."""
    known = _call.get()
    if known is not None:
        fields = known.fields | fields
    _call.set(Call(fields, on_end))
    return fields


def fork(**fields: Any) -> None:
    """A request within a call begins: the task at hand has fields of its own from now on."""
    call = current()
    _call.set(Call(call.fields | fields, call.on_end))


def merge(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """For structlog: what a line does not say itself is taken from the request at hand."""
    call = _call.get()
    return event if call is None else {**call.fields, **event}
