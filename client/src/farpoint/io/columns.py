"""Attributes that are made when they are asked for."""

from collections.abc import Callable, Iterator, Mapping

from farpoint._types import Array


class LazyColumns(Mapping[str, Array]):
    """Arrays by name; each is computed when it is looked up, and not kept."""

    def __init__(self, names: list[str], compute: Callable[[str], Array]) -> None:
        self._names = names
        self._compute = compute

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
