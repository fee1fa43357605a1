"""What the two ends need to know of kinds of work."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from farpoint_server.compute.arrays import Array
from farpoint_server.compute.work import Work

Models: TypeAlias = Callable[[int], Any]
"""Gives a model by its number; None for one that the front end was not given."""


class Packed(NamedTuple):
    """A work or an answer."""

    parameters: Sequence[Any]
    """What JSON can hold; of a work with its kind first."""
    arrays: Sequence[Array]


class Kinds(Protocol):
    """Works and answers as parameters and arrays."""

    def pack_work(self, work: Work[Any], /) -> Packed:
        """A request."""

    def unpack_work(
        self, parameters: Sequence[Any], arrays: Sequence[Array], models: Models, /
    ) -> Work[Any]:
        """The request; raises DamagedError for what `pack_work` does not make of a valid one."""

    def pack_answer(self, answer: Any, /) -> Packed:
        """An answer."""

    def unpack_answer(self, parameters: Sequence[Any], arrays: Sequence[Array], /) -> Any:
        """The answer of an engine, which is trusted."""
