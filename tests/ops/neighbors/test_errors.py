"""Argument errors of the neighbor searches: the name, what was expected and what arrived."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from farpoint_ops import ball_query, count_points, knn, nearest_sample

Call = Callable[[Tensor, Tensor], object]

# Clouds (2, 8, 3) as `x`, others (2, 5, 3) as `q`.
CASES: dict[str, tuple[Call, type[Exception], str]] = {
    "knn rank": (lambda x, q: knn(x[0], q, 2), ValueError, r"xyz: .*\(B, N, 3\), got \[8, 3\]"),
    "knn no points": (lambda x, q: knn(x[:, :0], q, 1), ValueError, "xyz: .*at least one point"),
    "knn batch": (
        lambda x, q: knn(x, q[:1], 2),
        ValueError,
        r"queries: expected shape \(2, M, 3\), got \[1, 5, 3\]",
    ),
    "knn dtypes": (
        lambda x, q: knn(x, q.half(), 2),
        TypeError,
        "queries: expected Float as xyz, got Half",
    ),
    "knn integers": (lambda x, q: knn(x.int(), q.int(), 2), TypeError, "xyz: .*got Int"),
    "knn k of 0": (lambda x, q: knn(x, q, 0), ValueError, "k: expected k >= 1, got 0"),
    "knn k a float": (lambda x, q: knn(x, q, 2.0), TypeError, "k: expected an integer, got 2.0"),
    "knn length of 0": (
        lambda x, q: knn(x, q, 3, lengths=[8, 0]),
        ValueError,
        "lengths: expected 1 <= length <= 8 for cloud 1, got 0",
    ),
    "knn count of lengths": (
        lambda x, q: knn(x, q, 3, lengths=[8]),
        ValueError,
        "lengths: expected 2 values, one a cloud, got 1",
    ),
    "knn lengths dtype": (
        lambda x, q: knn(x, q, 3, lengths=torch.ones(2, device=x.device)),
        TypeError,
        "lengths: expected int32 or int64, got Float",
    ),
    "knn no tensor": (lambda x, _: knn(x, [[0.0]], 1), TypeError, "queries: .*got list"),
    "ball integers": (lambda x, q: ball_query(x.int(), q.int(), 1, 2), TypeError, "xyz: .*got Int"),
    "ball centers": (
        lambda x, q: ball_query(x, q[..., :2], 1, 2),
        ValueError,
        r"centers: expected shape \(2, M, 3\), got \[2, 5, 2\]",
    ),
    "ball radius of 0": (
        lambda x, q: ball_query(x, q, 0, 2),
        ValueError,
        "radius: expected a positive number, got 0",
    ),
    "ball radius NaN": (lambda x, q: ball_query(x, q, torch.nan, 2), ValueError, "radius: .*nan"),
    "ball shell": (
        lambda x, q: ball_query(x, q, 1, 2, min_radius=1),
        ValueError,
        "min_radius: expected 0 <= min_radius < radius = 1, got 1",
    ),
    "ball shell negative": (
        lambda x, q: ball_query(x, q, 1, 2, min_radius=-0.5),
        ValueError,
        "min_radius: .*got -0.5",
    ),
    "ball k": (lambda x, q: ball_query(x, q, 1, 0), ValueError, "k: expected k >= 1, got 0"),
    "ball length of 0": (
        lambda x, q: ball_query(x, q, 1, 2, lengths=[0, 8]),
        ValueError,
        "lengths: expected 1 <= length <= 8 for cloud 0, got 0",
    ),
    "nearest dtypes": (
        lambda x, q: nearest_sample(x.double(), q),
        TypeError,
        "samples: expected Double as xyz, got Float",
    ),
    "nearest sample length": (
        lambda x, q: nearest_sample(x, q, sample_lengths=[5, 6]),
        ValueError,
        "sample_lengths: expected 0 <= length <= 5 for cloud 1, got 6",
    ),
    "count dtype": (lambda x, _: count_points(x[..., 0], 3), TypeError, "assignment: .*got Float"),
    "count rank": (
        lambda x, _: count_points(x.int(), 3),
        ValueError,
        r"assignment: expected shape \(B, N\), got \[2, 8, 3\]",
    ),
    "count m": (
        lambda x, _: count_points(x[..., 0].int(), -1),
        ValueError,
        "num_samples: .*got -1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_argument_is_named(device: torch.device, case: str) -> None:
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call(torch.zeros(2, 8, 3, device=device), torch.zeros(2, 5, 3, device=device))


def test_values_in_tensors_are_checked_on_the_cpu() -> None:
    x, lengths = torch.zeros(2, 8, 3), torch.tensor([8, 9])
    for call in (
        lambda: knn(x, x, 2, lengths=lengths),
        lambda: ball_query(x, x, 1, 2, lengths=lengths),
        lambda: nearest_sample(x, x, lengths=lengths),
        lambda: nearest_sample(x, x, sample_lengths=lengths),
    ):
        with pytest.raises(ValueError, match=r"lengths: .* <= 8 for cloud 1, got 9"):
            call()


@pytest.mark.parametrize("bad", [-2, 3, 2**40])
def test_a_sample_out_of_range_is_an_error_on_the_cpu(bad: int) -> None:
    message = rf"assignment: expected -1 <= sample < 3, got {bad} at \(1, 2\)"
    with pytest.raises(IndexError, match=message):
        count_points(torch.tensor([[0, 1, -1], [2, 2, bad]]), 3)
