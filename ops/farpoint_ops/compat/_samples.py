"""Shared by the drop-ins: samples of clouds of any dimension, as ops."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import to_list
from farpoint_ops._sampling_arguments import Start
from farpoint_ops.compat._checks import OptTensor
from farpoint_ops.compat._clouds import computable, rows_op, spans_of
from farpoint_ops.fps import farthest_point_sample_ragged


@rows_op(lambda *_: (-1,))
def _fps_by_ratio(
    src: Tensor, batch: OptTensor, ratio: Tensor, random_start: bool, ptr: OptTensor
) -> Tensor:
    """Rows of the samples of each cloud: the share `ratio` of its points, rounded up."""
    points = computable(src.detach()[:, None] if src.dim() == 1 else src.detach().flatten(1))
    if ptr is None:
        spans = spans_of("batch", batch, points)
    else:
        ends = to_list("ptr", ptr)
        if ends[:1] != [0] or ends[-1] != len(points) or ends != sorted(ends):
            raise ValueError(f"ptr: expected offsets from 0 to {len(points)}, got {ends}")
        spans = dict(enumerate(map(slice, ends[:-1], ends[1:])))
    if ratio.dim() > 1 or (ratio.dim() == 1 and len(ratio) <= max(spans, default=0)):
        raise ValueError(f"ratio: expected one or one per cloud, got shape {list(ratio.shape)}")
    if not bool((ratio >= 0).all()):
        raise ValueError(f"ratio: expected at least 0, got {ratio.tolist()}")
    sizes = torch.tensor([span.stop - span.start for span in spans.values()], device="cpu")
    share = ratio.cpu().float()
    share = share[list(spans)] if share.dim() else share.expand(len(sizes))
    counts = (sizes.float() * share).ceil().long().minimum(sizes)
    return samples_of(points, sizes, counts, random=random_start)


@rows_op(lambda *given: (given[0].size(0), given[2]))
def _sample_padded(
    points: Tensor, lengths: OptTensor, most: int, counts: OptTensor, random: bool
) -> Tensor:
    """Rows (B, most) of `counts[b]` samples of each cloud, or of all its points; then -1."""
    n = points.size(1)
    sizes = torch.full(points.shape[:1], n, device="cpu") if lengths is None else lengths.cpu()
    sizes = sizes.long()
    taken = sizes.clamp(max=most) if counts is None else sizes.minimum(counts.clamp(min=0))
    inside = torch.arange(n, device="cpu") < sizes[:, None]
    rows = samples_of(computable(points.detach())[inside], sizes, taken, random=random)
    firsts = (sizes.cumsum(0) - sizes).repeat_interleave(taken)
    idx = torch.full((len(sizes), most), -1, device=points.device)
    idx[torch.arange(most, device="cpu") < taken[:, None]] = rows - firsts.to(rows.device)
    return idx


def samples_of(points: Tensor, sizes: Tensor, counts: Tensor, *, random: bool) -> Tensor:
    """Rows int64 of `counts[b]` samples of each of the clouds of `sizes[b]` points, on the host."""
    sampled = counts > 0
    rows = sampled.repeat_interleave(sizes).nonzero()[:, 0].to(points.device)
    if not len(rows):
        return rows
    sizes, counts = sizes[sampled], counts[sampled]
    offsets = pad(sizes.cumsum(0), (1, 0))
    start: Start = "random" if random else 0
    return rows[farthest_point_sample_ragged(points[rows], offsets, counts, start=start).long()]
