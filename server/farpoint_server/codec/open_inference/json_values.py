"""Values of JSON as what they have to be: objects, lists, text, and tensors of numbers.

Types are checked before anything is made of a value: numpy would make an array of strings as wide
as the longest of them, which is gigabytes for a body of some hundred kilobytes.
"""

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from farpoint_server.codec.dtypes import INFERENCE_TYPES
from farpoint_server.codec.wire import Buffer
from farpoint_server.errors import InvalidRequestError, quoted

# Numbers of JSON take some thirty times their size while they are read, and a tenth of a second of
# the whole interpreter for each of these.
MAX_BYTES = 1 << 20
# In the JSON of a response, which takes as long.
MAX_NUMBERS = 1 << 17
BINARY_SIZE = "binary_data_size"
BINARY = "binary_data"
# By numpy's kind of the elements: which values of JSON they are made of.
_ELEMENTS: Mapping[str, set[type]] = {"f": {int, float}, "b": {bool}, "i": {int}, "u": {int}}


def read_json(text: memoryview) -> Any:
    """The value of a JSON text; raises InvalidRequestError if it is none, or too long."""
    if len(text) > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes of JSON; send tensors as {BINARY_SIZE}"
        raise InvalidRequestError("request", expected, f"{len(text)} bytes")
    try:
        return json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise InvalidRequestError("request", "a JSON object", f"{len(text)} other bytes") from None


def check_object(value: Any, field: str) -> Mapping[str, Any]:
    """A value that has to be an object; raises InvalidRequestError."""
    if not isinstance(value, dict):
        raise InvalidRequestError(field, "a JSON object", type(value).__name__)
    return value


def check_list(value: Any, field: str, most: int | None = None) -> list[Any]:
    """A value that has to be a list, of at most so many entries; raises InvalidRequestError."""
    if not isinstance(value, list):
        raise InvalidRequestError(field, "a JSON list", type(value).__name__)
    if most is not None and len(value) > most:
        raise InvalidRequestError(field, f"at most {most}", len(value))
    return value


def check_text(value: Any, field: str) -> str:
    """A value that has to be text; raises InvalidRequestError."""
    if not isinstance(value, str):
        raise InvalidRequestError(field, "a string", type(value).__name__)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(field, "Unicode text", "half of a surrogate pair") from None
    return value


def tensor_bytes(
    item: Mapping[str, Any], datatype: str, shape: tuple[int, ...], field: str
) -> bytes:
    """The `data` of an input, flat or in lists of lists, as the bytes of a tensor."""
    if datatype not in INFERENCE_TYPES or datatype == "BF16":
        raise InvalidRequestError(field, f"{BINARY_SIZE} for {quoted(datatype)}", "numbers")
    elements = check_list(item.get("data", None), field)
    sizes = [len(elements)]
    while elements and set(map(type, elements)) == {list}:
        if len(set(map(len, elements))) > 1:
            raise InvalidRequestError(field, "lists of equal length", "others")
        sizes.append(len(elements[0]))
        elements = list(chain.from_iterable(elements))
    if len(sizes) > 1 and tuple(sizes) != shape:
        raise InvalidRequestError(field, f"{shape}, or one list", tuple(sizes))
    dtype = INFERENCE_TYPES[datatype].numpy
    if not set(map(type, elements)) <= _ELEMENTS[dtype.kind]:
        raise InvalidRequestError(field, f"numbers of {datatype}", "others")
    if elements and dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not (bounds.min <= min(elements) and max(elements) <= bounds.max):
            raise InvalidRequestError(field, f"numbers within {datatype}", "larger ones")
    try:
        with np.errstate(over="ignore"):
            wide = np.array(elements, np.float64 if dtype.kind == "f" else dtype)
            return wide.astype(dtype).tobytes()
    except OverflowError:  # an integer that no double holds
        raise InvalidRequestError(field, f"numbers within {datatype}", "larger ones") from None


def tensor_numbers(name: str, datatype: str, data: Buffer) -> list[Any]:
    """The elements of an output for JSON, flat; raises InvalidRequestError if it has no such."""
    array = np.frombuffer(data, INFERENCE_TYPES[datatype].numpy)
    if array.size > MAX_NUMBERS:
        expected = f"{BINARY} for more than {MAX_NUMBERS} numbers"
        raise InvalidRequestError(f"outputs[{name}]", expected, array.size)
    if datatype == "BF16" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        got = datatype if datatype == "BF16" else "NaN or infinity"
        raise InvalidRequestError(f"outputs[{name}]", f"{BINARY}, as JSON has no such number", got)
    return list(array.tolist())
