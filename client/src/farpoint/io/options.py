"""What a caller says about a file that the file itself leaves open."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; the defaults leave it to the file.

    Attributes:
        format: the suffix to go by, for example ".laz", instead of the file's own.
        columns: names of the columns of a `.bin`, a plain array or a text without names.
        array: the array of an `.npz` that holds the points.
        topic: the topic of a recording that holds the clouds.
        message: which cloud of the topic, from 0.
    """

    format: str | None = None
    columns: tuple[str, ...] | None = None
    array: str | None = None
    topic: str | None = None
    message: int = 0

    def __post_init__(self) -> None:
        missing = {"x", "y", "z"} - {name.lower() for name in self.columns or ("x", "y", "z")}
        if missing:
            raise ValueError(f"columns must name x, y and z, got {','.join(self.columns or ())}")
        if self.columns and len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns must differ in name, got {','.join(self.columns)}")


DEFAULT_OPTIONS = ReadOptions()
