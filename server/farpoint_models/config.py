"""Configuration of an encoder: everything that determines the shapes of its weights."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

ATTRIBUTES_MAX = 1024
CHANNELS_MAX = 4096
STAGES_MAX = 16
# Characters of a config in a file; it also bounds what an error can quote of it.
JSON_MAX = 4096


@dataclass(frozen=True)
class EncoderConfig:
    """The shape of a `DensityEncoder`.

    Attributes:
        rates: For each stage, the share of its points that it keeps, in (0, 1].
        channels: Features of a point, in and between stages.
        invariant: The first of them, which a rotation does not change; 0 for none.
        upright: The next, which a turn about the z axis does not change; 1 or more if `invariant`
            is.
        hidden: Features inside the embeddings; a multiple of `groups`.
        neighbors: Neighbors that a sample looks at, clamped to the points there are.
        groups: Groups of every GroupNorm.
        attributes: Channels that come with each point, such as 1 for intensity; 0 for coordinates
            alone.
    """

    rates: tuple[float, ...] = (0.25, 0.25)
    channels: int = 32
    hidden: int = 32
    neighbors: int = 16
    groups: int = 4
    attributes: int = 0
    invariant: int = 0
    upright: int = 0

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "rates", tuple(float(rate) for rate in self.rates))
        except OverflowError as error:
            raise ValueError(f"rates: {error}") from error
        if len(self.rates) > STAGES_MAX:
            raise ValueError(f"rates: expected at most {STAGES_MAX} stages, got {len(self.rates)}")
        if not self.rates or not all(0 < rate <= 1 for rate in self.rates):
            raise ValueError(f"rates: expected one or more in (0, 1], got {self.rates}")
        for name in ("channels", "hidden", "neighbors", "groups"):
            self._check(name, 1, CHANNELS_MAX)
        self._check("attributes", 0, ATTRIBUTES_MAX)
        self._check("invariant", 0, max(self.channels - 2, 0))
        both = self.invariant > 0
        self._check("upright", int(both), both * (self.channels - 1 - self.invariant))
        if self.hidden % self.groups:
            raise ValueError(
                f"hidden: expected a multiple of groups = {self.groups}, got {self.hidden}"
            )

    def _check(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: expected an integer, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name}: expected {low}..{high}, got {value}")

    @property
    def oriented(self) -> "EncoderConfig":
        """Of the other channels, which change with every rotation, alone."""
        channels = self.channels - self.invariant - self.upright
        return replace(self, channels=channels, invariant=0, upright=0)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "EncoderConfig":
        """Raises ValueError or TypeError for an unknown, missing or invalid field."""
        if len(text) > JSON_MAX:
            expected = f"config: expected at most {JSON_MAX} characters"
            raise ValueError(f"{expected}, got {len(text)}: {text[:80]}")
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError(f"config: nested too deeply: {text[:80]}") from error
        if not isinstance(values, Mapping):
            raise ValueError(f"config: expected an object, got {text[:80]}")
        # Files from before there were such features do not name them.
        values = {"invariant": 0, "upright": 0, **values}
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            odd = sorted(values.keys() ^ names)
            raise ValueError(
                f"config: expected the fields {sorted(names)}; unknown or missing: {odd}"
            )
        if not isinstance(values["rates"], list):
            raise TypeError(f"rates: expected a list of numbers, got {values['rates']!r}")
        return cls(**values)
