"""Argument errors of every op: the name, what was expected and what arrived.

Each line of the tables is a call and its error, in whose message ``...`` stands for anything.
"""

import builtins
import re

import pytest
import torch

import farpoint_ops

raw = torch.ops.farpoint

ON_EVERY_DEVICE = """
fps(x[0], 2) -> ValueError: xyz: expected shape (B, N, D) with D from 1 to 1024, got [8, 3]
fps(x[0], 2, start=1) -> ValueError: xyz: ...got [8, 3]
fps(x[..., :0], 2) -> ValueError: xyz: ...got [2, 8, 0]
fps(x.repeat(1, 1, 342), 2) -> ValueError: xyz: ...got [2, 8, 1026]
fps(x[:, :0], 1) -> ValueError: xyz: ...one point...got [2, 0, 3]
fps(x[:1, :1].expand(1, 2**31 - 2**20, 3), 2) -> ValueError: xyz: expected at most 2146435071 points
fps(x.int(), 2) -> TypeError: xyz: expected float32...got Int
fps(x.cpu().numpy(), 2) -> TypeError: xyz: expected a torch.Tensor, got ndarray
fps(x, 0) -> ValueError: num_samples: expected 1 to N = 8, got 0
fps(x, -3) -> ValueError: num_samples: ...got -3
fps(x, 9) -> ValueError: num_samples: expected 1 to N = 8, got 9
fps(x, 2.0) -> TypeError: num_samples: expected an integer, got 2.0
fps(x, True) -> TypeError: num_samples: expected an integer, got True
fps(x) -> TypeError: num_samples: expected an integer, or a radius
fps(x, 2, start=8) -> IndexError: start: expected 0 <= start...got 8
fps(x, 2, start=-1) -> IndexError: start: ...got -1
fps(x, 2, start=[0, 8]) -> IndexError: start: ...cloud 1, got 8
fps(x, 2, start=[0]) -> ValueError: start: expected 2...got 1
fps(x, 2, start=0.5) -> TypeError: start: ...got 0.5
fps(x, 2, start=[0, 0.5]) -> TypeError: start[1]: ...got 0.5
fps(x, 2, start=x[0, 0, :2]) -> TypeError: start: expected int32 or int64, got Float
fps(x, 2, start=x[:, :1, 0].long()) -> ValueError: start: expected shape (2,), got [2, 1]
fps(x, 2, start="first") -> ValueError: start: expected 'random' or rows, got 'first'
fps(x, 3, lengths=[8, 2]) -> ValueError: lengths: ...1, got 2
fps(x, 3, lengths=[9, 8]) -> ValueError: lengths: ...0, got 9
fps(x, 3, lengths=[8]) -> ValueError: lengths: ...2...got 1
fps(x, 3, lengths=8) -> TypeError: lengths: ...got 8
fps(x, 3, radius=-1.0) -> ValueError: radius: expected a non-negative number for cloud 0, got -1.0
fps(x, 3, radius=nan) -> ValueError: radius: expected a non-negative number for cloud 0, got nan
fps(x, 3, radius=[1.0, -2.0]) -> ValueError: radius: ... for cloud 1, got -2.0
fps(x, 3, radius=[1.0]) -> ValueError: radius: expected 2 values, one per cloud, got 1
fps(x, 3, radius=1.0, max_samples=4) -> TypeError: max_samples: expected a radius with it, and
fps(x, max_samples=4) -> TypeError: max_samples: expected a radius with it, and no num_samples
fps(x, 3, nonfinite="drop") -> ValueError: nonfinite: expected 'last', 'reject'...got 'drop'

ragged(flat[None], [0, 1], 1) -> ValueError: xyz: expected shape (N, D), got [1, 10, 3]
ragged(flat.repeat(1, 342), [0, 10], 1) -> ValueError: xyz: ...1 to 1024, got [10, 1026]
ragged(flat.int(), [0, 10], 1) -> TypeError: xyz: expected ...got Int
ragged(flat, [0, 9], 1) -> ValueError: offsets: ...10, got [0, 9]
ragged(flat, [1, 10], 1) -> ValueError: offsets: ...0 to 10
ragged(flat, [], 1) -> ValueError: offsets: ...got []
ragged(flat, [0, 4, 4, 10], 1) -> ValueError: offsets: ...at least one point...4..4 for cloud 1
ragged(flat, [0, 7, 3, 10], 1) -> ValueError: offsets: ...7..3
ragged(flat, flat[:2, 0], 1) -> TypeError: offsets: expected int32 or int64, got torch.float32
ragged(flat, [0, 10], 0) -> ValueError: num_samples: expected 1 to 10, the points of cloud 0, got 0
ragged(flat, [0, 3, 10], [3, 8]) -> ValueError: num_samples: ...cloud 1, got 8
ragged(flat, [0, 10], [1, 1]) -> ValueError: num_samples: ...1...got 2
ragged(flat, [0, 10], 1.5) -> TypeError: num_samples: ...got 1.5
ragged(flat, [0, 3, 10], 1, start=3) -> IndexError: start: ...cloud 0, got 3
ragged(flat, [0, 10], 3, start="first") -> ValueError: start: expected 'random' or rows, got 'first'


voxel_grid_sample(x, 1.0) -> ValueError: xyz: ...(N, 3), got
voxel_grid_mean(x[0].int(), 1.0) -> TypeError: xyz: ...torch.int32
voxel_grid_sample(x[0], 0.0) -> ValueError: voxel_size: ...got 0
voxel_grid_sample(x[0], i(0)) -> ValueError: voxel_size: expected a positive number
voxel_grid_sample(x[0], [1.0, 2.0]) -> ValueError: voxel_size: expected 1 values, one per cloud
voxel_grid_sample(x[0] + 1, 1e-20) -> ValueError: voxel_size: a point is 2^53 voxels
voxel_grid_sample(x[0], 1.0, offsets=[0, 9]) -> ValueError: offsets: expected ... 0 to 8, got [0, 9]
voxel_grid_sample(x[0], 1.0, select="last") -> ValueError: select: expected 'first' or 'nearest
random_sample(x, 9) -> ValueError: num_samples: ... N = 8, got 9
random_sample(x, 2, seed=[1]) -> ValueError: seed: expected 2
random_sample(x, 2, seed=0.5) -> TypeError: seed: ...got 0.5
random_sample(x, 3, lengths=[8, 2]) -> ValueError: lengths: ...2
random_sample_ragged(x[0], [0, 3, 8], 4) -> ValueError: num_samples: ...to 3...cloud 0, got 4
random_sample_ragged(x[0], [0, 3, 8], 2, seed=[1]) -> ValueError: seed: expected 2
poisson_disk_sample(x, -1.0) -> ValueError: radius: ...got -1
poisson_disk_sample(flat, 1.0, offsets=[0, 10], max_samples=4) -> TypeError: max_samples: ...offsets

knn(x[0], q, 2) -> ValueError: xyz: ...(B, N, 3), got [8, 3]
knn(x[:, :0], q, 1) -> ValueError: xyz: ...at least one point
knn(x, q[:1], 2) -> ValueError: queries: expected shape (2, M, 3), got [1, 5, 3]
knn(x, q.int(), 2) -> TypeError: queries: expected float32, float16, bfloat16 or float64
knn(x.int(), q.int(), 2) -> TypeError: xyz: ...got Int
knn(x, [[0.0]], 1) -> TypeError: queries: ...got list
knn(x, q, 0) -> ValueError: k: expected k >= 1, got 0
knn(x, q, 2.0) -> TypeError: k: expected an integer, got 2.0
knn(x, q, 3, lengths=[8, 0]) -> ValueError: lengths: expected 1 <= length <= 8 for cloud 1, got 0
knn(x, q, 3, lengths=[8]) -> ValueError: lengths: expected 2 values, one per cloud, got 1
knn(x, q, 3, lengths=x[0, 0, :2]) -> TypeError: lengths: expected int32 or int64, got Float
ball_query(x.int(), q.int(), 1, 2) -> TypeError: xyz: ...got Int
ball_query(x, q[..., :2], 1, 2) -> ValueError: centers: expected shape (2, M, 3), got [2, 5, 2]
ball_query(x, q, 0, 2) -> ValueError: radius: expected a positive number, got 0
ball_query(x, q, nan, 2) -> ValueError: radius: ...nan
ball_query(x, q, 1, 2, min_radius=1) -> ValueError: min_radius: ...0 <= min_radius < radius = 1
ball_query(x, q, 1, 2, min_radius=-0.5) -> ValueError: min_radius: ...got -0.5
ball_query(x, q, 1, 0) -> ValueError: k: expected k >= 1, got 0
ball_query(x, q, 1, 2, lengths=[0, 8]) -> ValueError: lengths: ...1 <= length <= 8 for cloud 0
ball_query(x, q, -1.0, 2) -> ValueError: radius: expected a positive number, got -1
ball_query(x, q, [1, 0], 2) -> ValueError: radius: expected a positive number for cloud 1, got 0
ball_query(x, q, [1.0], 2) -> ValueError: radius: expected 2 values, one per cloud, got 1
ball_query(x, q, x[..., 0], 2) -> ValueError: radius: expected one number, or one for each of 2
raw.ball_query(x, q, 0, 2, shells=x[0, 0]) -> ValueError: radius: expected two for each of 2 clouds
raw.ball_query(x, q, 0, 2, shells=x.half()) -> TypeError: radius: expected Float, got Half
nearest_sample(x, q.long()) -> TypeError: samples: expected float32, float16, bfloat16 or float64
nearest_sample(x, q, sample_lengths=[5, 6]) -> ValueError: sample_lengths: ... <= 5 for cloud 1
count_points(x[..., 0], 3) -> TypeError: assignment: ...got Float
count_points(x.int(), 3) -> ValueError: assignment: expected shape (B, N), got [2, 8, 3]
count_points(x[..., 0].int(), -1) -> ValueError: num_samples: ...got -1

gather_points(f[0], idx[..., 0]) -> ValueError: features: expected 3 dimensions...got [4, 7]
gather_points(f, idx[:1, :, 0]) -> ValueError: idx: expected shape (2, M), got [1, 5]
gather_points(f, w[..., 0]) -> TypeError: idx: expected int32 or int64, got Float
gather_points([[[1.0]]], idx) -> TypeError: features: expected a torch.Tensor, got list
group_points(f, idx[..., 0]) -> ValueError: idx: expected shape (2, M, K), got [2, 5]
raw.scatter_points(f, idx[..., 0], 7) -> ValueError: values: expected shape (B, C, 5), got [2, 4, 7]
raw.scatter_points(f[..., :5].int(), idx[..., 0], 7) -> TypeError: values: ...floating point
raw.scatter_points(f[..., :5], idx[..., 0], -1) -> ValueError: n: expected a non-negative size
interpolate(f[0], idx, w) -> ValueError: features: expected 3 dimensions...got [4, 7]
interpolate(f.int(), idx, w) -> TypeError: features: expected a floating point type, got Int
interpolate(f, w, w) -> TypeError: idx: expected int32 or int64, got Float
interpolate(f, idx[:1], w) -> ValueError: idx: expected shape (2, N, K), got [1, 5, 3]
interpolate(f, idx, w[..., :2]) -> ValueError: weight: ... idx, [2, 5, 3], got [2, 5, 2]
interpolate(f, idx, [1.0]) -> TypeError: weight: expected a torch.Tensor, got list
raw.interpolate_scatter(f, idx, w, 7) -> ValueError: values: expected shape (B, C, 5), got [2, 4, 7]
raw.interpolate_dot(f[..., :5], f[:, :3], idx) -> ValueError: features: ...(2, 4, M), got [2, 3, 7]
"""

# Values in tensors, which a GPU does not wait for.
ON_THE_CPU = """
fps(x, 2, start=i(0, 9)) -> IndexError: start: expected 0 <= start < 8 for cloud 1, got 9
fps(x, 2, start=5, lengths=[8, 4]) -> IndexError: start: expected 0 <= start < 4 for cloud 1, got 5
fps(x, 2, lengths=i(1, 8)) -> ValueError: lengths: ... for cloud 0, got 1
fps(x, 3, radius=x[0, 0, :2] - 2) -> ValueError: radius: ... for cloud 0, got -2
knn(x, x, 2, lengths=i(8, 9)) -> ValueError: lengths: ... <= 8 for cloud 1, got 9
ball_query(x, q, i(1, 0), 2) -> ValueError: radius: expected a positive number, got 0
ball_query(x, q, i(3, 2), 2, min_radius=i(2, 2)[0]) -> ValueError: min_radius: ... radius = 2, got 2
ball_query(x, x, 1, 2, lengths=i(8, 9)) -> ValueError: lengths: ... <= 8 for cloud 1, got 9
nearest_sample(x, x, lengths=i(8, 9)) -> ValueError: lengths: ... <= 8 for cloud 1, got 9
nearest_sample(x, x, sample_lengths=i(8, 9)) -> ValueError: lengths: ... <= 8 for cloud 1, got 9

raw_ragged(i(0, 11), i(0, 2), None, 2) -> ValueError: offsets: expected offsets from 0 to 10
raw_ragged(i(0, 12, 10), i(0, 1, 2), None, 2) -> ValueError: offsets: ... never fall
raw_ragged(i(0, 10), i(0, 3), None, 2) -> ValueError: sample_offsets: expected offsets from 0 to 2
raw_ragged(i(0, 10), i(0, 11), None, 11) -> ValueError: num_samples: expected 1 to 10
raw_ragged(i(0, 10), i(0, 1, 2), None, 2) -> ValueError: sample_offsets: expected shape (2,)
raw_ragged(i(0, 10, 10), i(0, 1, 2), None, 2) -> ValueError: empty cloud 1
raw_ragged(i(0, 10), i(0, 2), i(10), 2) -> IndexError: start: expected 0 <= start < 10

count_points(i(0, -2)[None], 3) -> IndexError: assignment: ...-1 <= sample < 3, got -2 at (0, 1)
count_points(i(0, 2**40)[None], 3) -> IndexError: assignment: ... < 3, got 1099511627776 at (0, 1)
gather_points(f[:1], i(0, -1)[None]) -> IndexError: idx: expected 0 <= idx < 7, got -1 at (0, 1)
gather_points(f[:1], i(0, 2**31 - 1)[None]) -> IndexError: idx: ... < 7, got 2147483647 at (0, 1)
group_points(f[:1], i(0, 7)[None, :, None]) -> IndexError: idx: ... < 7, got 7 at (0, 1, 0)
raw.scatter_points(w[:1, :3, :2], i(0, 7)[None], 7) -> IndexError: idx: ... < 7, got 7 at (0, 1)
interpolate(f, bad, w) -> IndexError: idx: ... < 7, got 7 at (1, 3, 2)
raw.interpolate_scatter(f[..., :5], bad, w, 7) -> IndexError: idx: ... < 7, got 7 at (1, 3, 2)
raw.interpolate_dot(f[..., :5], f, bad) -> IndexError: idx: ... < 7, got 7 at (1, 3, 2)
"""


def cases(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


def expect_error(line: str, names: dict[str, object]) -> None:
    call, error = line.split(" -> ")
    kind, message = error.split(": ", 1)
    pattern = ".*".join(map(re.escape, message.split("...")))
    with pytest.raises(getattr(builtins, kind), match=pattern):
        eval(call, names)


def check(line: str, device: torch.device) -> None:
    zeros, bad = torch.zeros, torch.zeros(2, 5, 3, dtype=torch.int64, device=device)
    bad[1, 3, 2] = 7
    flat, q = zeros(10, 3, device=device), zeros(2, 5, 3, device=device)
    names = {
        **{name: getattr(farpoint_ops, name) for name in farpoint_ops.__all__},
        "fps": farpoint_ops.farthest_point_sample,
        "ragged": farpoint_ops.farthest_point_sample_ragged,
        "raw": raw,
        "raw_ragged": lambda *a: raw.furthest_point_sample_ragged(flat, *a, 10, a[-1]),
        **{"x": zeros(2, 8, 3, device=device), "q": q, "flat": flat},
        **{
            "f": zeros(2, 4, 7, device=device),
            "idx": torch.zeros_like(bad),
            "w": zeros(2, 5, 3, device=device),
            "bad": bad,
        },
        "i": lambda *values: torch.tensor(values, device=device),
        "nan": torch.nan,
    }
    expect_error(line, names)


@pytest.mark.parametrize("line", cases(ON_EVERY_DEVICE))
def test_a_bad_argument_is_named(device: torch.device, line: str) -> None:
    check(line, device)


@pytest.mark.parametrize("line", cases(ON_THE_CPU))
def test_a_bad_value_in_a_tensor_is_named_on_the_cpu(line: str) -> None:
    check(line, torch.device("cpu"))
