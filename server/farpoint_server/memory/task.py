"""A kind of work, as the memory manager sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Work = TypeVar("Work")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Task(Generic[Work, Answer]):
    """How a batch of one kind of work is run, sized and cut.

    Args:
        forward: Answers a batch; the answers lie in host memory when it returns.
        predict: Bytes that a batch takes on the device, inputs and answers included.
        halve: Two parts of one request; None where it cannot be cut.
        join: The answer to a request from its first part and the answers to both.
    """

    forward: Callable[[Sequence[Work]], list[Answer]]
    predict: Callable[[Sequence[Work]], int]
    halve: Callable[[Work], tuple[Work, Work] | None]
    join: Callable[[Work, Answer, Answer], Answer]
