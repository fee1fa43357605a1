"""The progress of a run, in lines."""

from collections.abc import Callable

SMOOTHING = 0.98
LINE_EVERY = 100


def progress(total: int) -> Callable[[int, float], None]:
    """A function that takes the steps done and the loss of the last, and prints now and then."""
    sums = [0.0, 0.0]

    def update(done: int, loss: float) -> None:
        for i, value in enumerate((loss, 1.0)):
            sums[i] += (1 - SMOOTHING) * (value - sums[i])
        if done % LINE_EVERY == 0 or done == total:
            print(f"step {done}/{total}  loss {sums[0] / sums[1]:.4f}", flush=True)

    return update
