"""Argument errors of furthest point sampling: the name, what was expected and what arrived."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample as fps
from farpoint_ops import farthest_point_sample_ragged as ragged

Call = Callable[[Tensor], object]

# Clouds (2, 8, 3) as `x`.
EQUAL_SIZES: dict[str, tuple[Call, type[Exception], str]] = {
    "rank": (
        lambda x: fps(x[0], 2),
        ValueError,
        r"xyz: expected shape \(B, N, D\) with D from 1 to 64, got \[8, 3\]",
    ),
    "rank, with a start": (lambda x: fps(x[0], 2, start=1), ValueError, r"xyz: .*got \[8, 3\]"),
    "no columns": (lambda x: fps(x[..., :0], 2), ValueError, r"xyz: .*got \[2, 8, 0\]"),
    "columns": (lambda x: fps(x.repeat(1, 1, 22), 2), ValueError, r"xyz: .*got \[2, 8, 66\]"),
    "no points": (lambda x: fps(x[:, :0], 1), ValueError, r"xyz: .*one point.*got \[2, 0, 3\]"),
    "a stride short of int32": (
        lambda x: fps(x[:1, :1].expand(1, 2**31 - 2**20, 3), 2),
        ValueError,
        r"xyz: expected at most 2146435071 points in a cloud, got \[1, 2146435072, 3\]",
    ),
    "integers": (lambda x: fps(x.int(), 2), TypeError, "xyz: expected float32.*got Int"),
    "m of 0": (lambda x: fps(x, 0), ValueError, "num_samples: expected 1 to N = 8, got 0"),
    "m negative": (lambda x: fps(x, -3), ValueError, "num_samples: .*got -3"),
    "m above N": (lambda x: fps(x, 9), ValueError, "num_samples: expected 1 to N = 8, got 9"),
    "m a float": (lambda x: fps(x, 2.0), TypeError, "num_samples: expected an integer, got 2.0"),
    "m a bool": (lambda x: fps(x, True), TypeError, "num_samples: expected an integer, got True"),
    "start at N": (lambda x: fps(x, 2, start=8), IndexError, "start: expected 0 <= start.*got 8"),
    "start negative": (lambda x: fps(x, 2, start=-1), IndexError, "start: .*got -1"),
    "one of the starts": (lambda x: fps(x, 2, start=[0, 8]), IndexError, "start: .*cloud 1, got 8"),
    "count of starts": (lambda x: fps(x, 2, start=[0]), ValueError, "start: expected 2.*got 1"),
    "start a float": (lambda x: fps(x, 2, start=0.5), TypeError, "start: .*got 0.5"),
    "start floats": (lambda x: fps(x, 2, start=[0, 0.5]), TypeError, r"start\[1\]: .*got 0.5"),
    "start dtype": (
        lambda x: fps(x, 2, start=torch.zeros(2, device=x.device)),
        TypeError,
        "start: expected int32 or int64, got Float",
    ),
    "start shape": (
        lambda x: fps(x, 2, start=torch.zeros(2, 1, dtype=torch.long, device=x.device)),
        ValueError,
        r"start: expected shape \(2,\), got \[2, 1\]",
    ),
    "length below m": (lambda x: fps(x, 3, lengths=[8, 2]), ValueError, "lengths: .*1, got 2"),
    "length above N": (lambda x: fps(x, 3, lengths=[9, 8]), ValueError, "lengths: .*0, got 9"),
    "count of lengths": (lambda x: fps(x, 3, lengths=[8]), ValueError, "lengths: .*2.*got 1"),
    "lengths one number": (lambda x: fps(x, 3, lengths=8), TypeError, "lengths: .*got 8"),
}

# A flat cloud (10, 3) as `x`.
RAGGED: dict[str, tuple[Call, type[Exception], str]] = {
    "rank": (
        lambda x: ragged(x[None], [0, 1], 1),
        ValueError,
        r"xyz: expected shape \(N, D\), got \[1, 10, 3\]",
    ),
    "columns": (
        lambda x: ragged(x.repeat(1, 22), [0, 10], 1),
        ValueError,
        r"xyz: expected shape \(N, D\) with D from 1 to 64, got \[10, 66\]",
    ),
    "integers": (lambda x: ragged(x.int(), [0, 10], 1), TypeError, "xyz: expected .*got Int"),
    "offsets short": (lambda x: ragged(x, [0, 9], 1), ValueError, r"offsets: .*10, got \[0, 9\]"),
    "offsets late": (lambda x: ragged(x, [1, 10], 1), ValueError, "offsets: .*0 to 10"),
    "no offsets": (lambda x: ragged(x, [], 1), ValueError, r"offsets: .*got \[\]"),
    "empty cloud": (
        lambda x: ragged(x, [0, 4, 4, 10], 1),
        ValueError,
        r"offsets: expected at least one point.*got 4\.\.4 for cloud 1",
    ),
    "offsets fall": (lambda x: ragged(x, [0, 7, 3, 10], 1), ValueError, r"offsets: .*7\.\.3"),
    "offsets dtype": (
        lambda x: ragged(x, torch.tensor([0.0, 10.0]), 1),
        TypeError,
        "offsets: expected int32 or int64, got torch.float32",
    ),
    "samples of 0": (
        lambda x: ragged(x, [0, 10], 0),
        ValueError,
        "num_samples: expected 1 to 10, the points of cloud 0, got 0",
    ),
    "samples above": (lambda x: ragged(x, [0, 3, 10], [3, 8]), ValueError, "cloud 1, got 8"),
    "samples count": (lambda x: ragged(x, [0, 10], [1, 1]), ValueError, "num_samples: .*1.*got 2"),
    "samples a float": (lambda x: ragged(x, [0, 10], 1.5), TypeError, "num_samples: .*got 1.5"),
    "start": (lambda x: ragged(x, [0, 3, 10], 1, start=3), IndexError, "start: .*cloud 0, got 3"),
}


@pytest.mark.parametrize("case", EQUAL_SIZES)
def test_equal_sizes(device: torch.device, case: str) -> None:
    call, error, message = EQUAL_SIZES[case]
    with pytest.raises(error, match=message):
        call(torch.zeros(2, 8, 3, device=device))


@pytest.mark.parametrize("case", RAGGED)
def test_ragged(device: torch.device, case: str) -> None:
    call, error, message = RAGGED[case]
    with pytest.raises(error, match=message):
        call(torch.zeros(10, 3, device=device))


def test_values_in_tensors_are_checked_on_the_cpu() -> None:
    x = torch.zeros(2, 8, 3)
    with pytest.raises(IndexError, match="start: expected 0 <= start < 8 for cloud 1, got 9"):
        fps(x, 2, start=torch.tensor([0, 9]))
    with pytest.raises(IndexError, match="start: expected 0 <= start < 4 for cloud 1, got 5"):
        fps(x, 2, start=5, lengths=[8, 4])
    with pytest.raises(ValueError, match=r"lengths: .* for cloud 0, got 1"):
        fps(x, 2, lengths=torch.tensor([1, 8]))


def int64(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


@pytest.mark.parametrize(
    ("offsets", "slots", "start", "total", "message"),
    [
        (int64(0, 11), int64(0, 2), None, 2, "offsets: expected offsets from 0 to 10"),
        (int64(0, 12, 10), int64(0, 1, 2), None, 2, "offsets: .* never fall"),
        (int64(0, 10), int64(0, 3), None, 2, "sample_offsets: expected offsets from 0 to 2"),
        (int64(0, 10), int64(0, 11), None, 11, "num_samples: expected 1 to 10"),
        (int64(0, 10), int64(0, 1, 2), None, 2, r"sample_offsets: expected shape \(2,\)"),
        (int64(0, 10, 10), int64(0, 1, 2), None, 2, "empty cloud 1"),
        (int64(0, 10), int64(0, 2), int64(10), 2, "start: "),
    ],
)
def test_the_raw_ragged_op_never_reads_past_the_end(
    offsets: Tensor, slots: Tensor, start: Tensor | None, total: int, message: str
) -> None:
    op = torch.ops.farpoint.furthest_point_sample_ragged
    with pytest.raises((ValueError, IndexError), match=message):
        op(torch.zeros(10, 3), offsets, slots, start, total, 10, total)


def test_something_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"xyz: expected a torch\.Tensor, got ndarray"):
        fps(np.zeros((1, 4, 3), np.float32), 2)
