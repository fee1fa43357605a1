"""What decides a training run."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from farpoint_models.config import EncoderConfig
from farpoint_training.sources import Source, folder, scans, shapes

# Scenes that training may see start here; those of the report elsewhere.
FIRST_SCENE = 1000


@dataclass(frozen=True)
class Settings:
    """Together with the user's folder, all that a run depends on.

    Attributes:
        encoder: The model.
        steps: Optimizer steps.
        points: Points in a step, over all its clouds.
        seed: Of weights and data.
        learning_rate: At the start; falls to zero along a cosine.
        data: Folder of the user's clouds, a third source beside shapes and scans.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    steps: int = 4000
    points: int = 4096
    seed: int = 0
    learning_rate: float = 2e-3
    data: Path | None = None

    def sources(self) -> list[Source]:
        own = [folder(self.data)] if self.data is not None else []
        return [shapes(), scans(FIRST_SCENE + 100 * self.seed), *own]

    def describe(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self) | {"data": None if self.data is None else str(self.data)}
