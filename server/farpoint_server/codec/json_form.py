"""Protobuf messages in their JSON form, bounded before they are parsed."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from farpoint_server.codec.wire_limits import MAX_FIELDS
from farpoint_server.errors import InvalidRequestError, shortened

# A million points of float32 in base64. Each step of the parser holds the GIL, for some 10 ms at
# this size.
MAX_BYTES = 1 << 24
# Fields with one number for each cloud.
FIELDS_PER_CLOUD = 4
MAX_DEPTH = 32

M = TypeVar("M", bound=Message)


class _Number(float):
    """Is no whole number unless it has that value: protobuf takes the 1.9 of an enum for 1."""

    def __int__(self) -> int:
        if not self.is_integer():
            raise ValueError(f"{float(self)} is not a whole number")
        return super().__int__()


def read_json(raw: bytes, kind: type[Message], clouds: int) -> bytes:
    """The serialized message of a JSON text."""
    most = MAX_FIELDS + FIELDS_PER_CLOUD * clouds
    # Large values are base64, which has none of these; each costs up to a hundred bytes.
    parts = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    if parts > most:
        raise InvalidRequestError("request", f"JSON of at most {most} values", parts)
    return parse(load(raw, _Number), kind).SerializeToString()


def load(raw: bytes, parse_float: Callable[[str], float] = float) -> dict[str, Any]:
    """The object of a JSON text; raises InvalidRequestError for another text."""
    try:
        text: Any = json.loads(raw, parse_float=parse_float)
    except (ValueError, RecursionError) as error:
        raise _refusal(str(error)) from error
    if not isinstance(text, dict):
        raise _refusal(f"JSON {type(text).__name__}")
    return text


def parse(fields: Mapping[str, Any], kind: type[M]) -> M:
    """The message of a JSON object; raises InvalidRequestError for another value."""
    try:
        return json_format.ParseDict(dict(fields), kind(), max_recursion_depth=MAX_DEPTH)
    # OverflowError: an integer such as 10^400, which no double holds.
    except (
        *(json_format.Error, OverflowError, ValueError, TypeError, AttributeError, KeyError),
    ) as error:
        raise _refusal(str(error)) from error


def write_json(raw: bytes, kind: type[Message]) -> bytes:
    """The JSON text of a serialized message."""
    return dump(json_format.MessageToDict(kind.FromString(raw)))


def dump(value: Any) -> bytes:
    """JSON without spaces, UTF-8."""
    return json.dumps(value, separators=(",", ":")).encode()


def _refusal(why: str) -> InvalidRequestError:
    # Half of a surrogate pair is no text of a status.
    text = why.encode(errors="replace").decode()
    return InvalidRequestError("request", "a message in JSON", shortened(text))
