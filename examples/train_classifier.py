"""Training script of a PointNet++-style classifier of procedural shapes, through the ops.

    python examples/train_classifier.py [--steps 400] [--classes 12]

Qi, Yi, Su and Guibas, "PointNet++", NeurIPS 2017: sample centers, group what is around them, let a
small network look at each group, take the maximum, and again. The sampling chooses rows, which no
gradient can move; the features of the chosen rows learn. The script ends by showing both.
"""

import argparse
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from farpoint_ops import ball_query, furthest_point_sample, gather_points, group_points
from farpoint_training.families import FAMILIES, sample_shape

POINTS = 512
BATCH = 16
TRIALS = 20


class SetAbstraction(nn.Module):
    """Features of `centers` sampled points from all points within `radius`."""

    def __init__(self, centers: int, radius: float, neighbors: int, inputs: int, outputs: int):
        super().__init__()
        self.centers, self.radius, self.neighbors = centers, radius, neighbors
        self.network = nn.Sequential(
            nn.Conv2d(3 + inputs, outputs, 1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> (B, M, 3), (B, outputs, M)."""
        chosen = furthest_point_sample(xyz, self.centers)
        centers = gather_points(xyz.mT, chosen)
        rows, _ = ball_query(xyz, centers.mT, self.radius, self.neighbors)
        offsets = (group_points(xyz.mT, rows) - centers.unsqueeze(3)) / self.radius
        seen = self.network(torch.cat([offsets, group_points(features, rows)], 1))
        return centers.mT, seen.amax(3)


class Classifier(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.near = SetAbstraction(128, 0.25, 16, 0, 48)
        self.far = SetAbstraction(32, 0.5, 16, 48, 96)
        self.whole = nn.Sequential(nn.Conv1d(3 + 96, 128, 1), nn.BatchNorm1d(128), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, xyz: Tensor) -> Tensor:
        """(B, N, 3) -> logits (B, classes)."""
        xyz, features = self.near(xyz, xyz.mT[:, :0])
        xyz, features = self.far(xyz, features)
        pooled: Tensor = self.whole(torch.cat([xyz.mT, features], 1)).amax(2)
        logits: Tensor = self.head(pooled)
        return logits


def shapes(names: list[str], labels: Tensor, rng: np.random.Generator) -> Tensor:
    """A cloud (POINTS, 3) for each label, in the unit ball around its middle."""
    drawn = [sample_shape(names[label], POINTS, rng) for label in labels.tolist()]
    clouds = torch.tensor(np.stack(drawn))
    clouds = clouds - clouds.mean(1, keepdim=True)
    return clouds / clouds.norm(dim=2).amax(1)[:, None, None]


def train(model: Classifier, names: list[str], steps: int, rng: np.random.Generator) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    begin, recent = time.perf_counter(), []
    for step in range(1, steps + 1):
        labels = torch.tensor(rng.integers(len(names), size=BATCH))
        loss = functional.cross_entropy(model(shapes(names, labels, rng)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if step % 25 == 0 or step == steps:
            mean, seconds = np.mean(recent), time.perf_counter() - begin
            bar = "#" * round(20 * mean / np.log(len(names)))
            print(f"step {step:4d}  {seconds:5.0f} s  loss {mean:.3f}  {bar}", flush=True)
            recent = []


@torch.no_grad()
def accuracy(model: Classifier, names: list[str], rng: np.random.Generator) -> float:
    """On clouds that it has not seen, `TRIALS` of each class."""
    model.eval()
    labels = torch.arange(len(names)).repeat(TRIALS)
    right = [model(shapes(names, part, rng)).argmax(1) == part for part in labels.split(BATCH)]
    return float(torch.cat(right).float().mean())


def show_what_learns(model: Classifier, before: Classifier, names: list[str]) -> None:
    """The choice of points has no gradient and has not moved; what is gathered has, and did."""
    before.eval()
    model.zero_grad()
    labels = torch.arange(len(names))
    xyz = shapes(names, labels, np.random.default_rng(0)).requires_grad_()
    chosen = furthest_point_sample(xyz, 128)
    print(f"\nsampling    indices are {chosen.dtype}, requires_grad={chosen.requires_grad}")
    functional.cross_entropy(model(xyz), labels).backward()
    assert xyz.grad is not None
    print(f"coordinates gradient norm {xyz.grad.norm():.2e}, through grouped offsets alone")
    fresh = dict(before.named_parameters())
    for name in ("near.network.0.weight", "far.network.0.weight", "head.2.weight"):
        weight = model.get_parameter(name)
        assert weight.grad is not None
        moved = (weight - fresh[name]).norm() / fresh[name].norm()
        print(
            f"{name:22s} gradient norm {weight.grad.norm():.2e}, moved by {moved:.0%} in training"
        )
    with torch.no_grad():
        (centers, old), (same, new) = (
            before.near(xyz, xyz.mT[:, :0]),
            model.near(xyz, xyz.mT[:, :0]),
        )
    print(f"centers     the same before and after training: {torch.equal(centers, same)}")
    print(f"features    of those centers changed by {(new - old).norm() / old.norm():.0%}")


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--classes", type=int, default=12, choices=range(2, len(FAMILIES) + 1))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="such as cuda")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_default_device(args.device)
    names = list(FAMILIES)[: args.classes]
    model, before = Classifier(len(names)), Classifier(len(names))
    before.load_state_dict(model.state_dict())
    train(model, names, args.steps, np.random.default_rng((args.seed, 0)))
    reached = accuracy(model, names, np.random.default_rng((args.seed, 1)))
    print(
        f"\naccuracy on {TRIALS * len(names)} unseen shapes of {len(names)} classes: {reached:.1%}"
    )
    show_what_learns(model, before, names)
    return reached


if __name__ == "__main__":
    main()
