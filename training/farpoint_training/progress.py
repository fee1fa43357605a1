"""The progress of a run: a bar where `rich` is installed, lines where it is not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

SMOOTHING = 0.98
LINE_EVERY = 100

Update = Callable[[int, float], None]


@contextmanager
def progress(total: int, done: int = 0) -> Iterator[Update]:
    """Yields a function that is told the steps done and the loss of the last."""
    mean = Smoothed()
    if find_spec("rich") is None:
        yield lambda done, loss: _line(done, total, mean(loss))
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=total, completed=done, loss=float("nan"))
        yield lambda done, loss: bar.update(task, completed=done, loss=mean(loss))


class Smoothed:
    """A running mean that forgets."""

    def __init__(self) -> None:
        self.sum = self.weight = 0.0

    def __call__(self, value: float) -> float:
        self.sum = SMOOTHING * self.sum + (1 - SMOOTHING) * value
        self.weight = SMOOTHING * self.weight + 1 - SMOOTHING
        return self.sum / self.weight


def _line(done: int, total: int, loss: float) -> None:
    if done % LINE_EVERY == 0 or done == total:
        print(f"step {done}/{total}  loss {loss:.4f}", flush=True)
