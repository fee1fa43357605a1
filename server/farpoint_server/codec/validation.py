"""Checks of one number per cloud, all clouds at once."""

from collections.abc import Sequence

import numpy as np

from farpoint_server.engine.types import Int64s
from farpoint_server.errors import InvalidRequestError


def per_cloud(values: Sequence[int], field: str, clouds: int) -> Int64s:
    """The values of a repeated field that holds one number for all clouds, or one per cloud."""
    if len(values) not in (1, clouds):
        expected = "1 value" if clouds == 1 else f"1 value or {clouds}, one per cloud"
        raise InvalidRequestError(field, expected, f"{len(values)} values")
    return np.fromiter(values, np.int64, len(values))


def check_range(values: Int64s, low: int, high: Int64s, field: str, meaning: str) -> None:
    """Raises InvalidRequestError for the first value outside low..high.

    Args:
        values: Shape (B,), or (1,) for all clouds; for a single cloud this is cheap.
        low: Smallest value that is right.
        high: Shape (B,): largest value that is right.
        field: Name of the repeated field.
        meaning: What `high` is; `{}` stands for the cloud.
    """
    if len(high) == 1 and low <= int(values[0]) <= int(high[0]):
        return
    wrong = (values < low) | (values > high)
    if wrong.any():
        cloud = int(wrong.argmax())
        index = cloud % len(values)
        expected = f"{low} to {high[cloud]}, {meaning.format(cloud)}"
        raise InvalidRequestError(f"{field}[{index}]", expected, values[index])
