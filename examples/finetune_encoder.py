"""Fine-tunes the shipped encoder on recorded scans of a folder, and says what that was worth.

    python examples/finetune_encoder.py tests/data --out tuned.safetensors [--steps 300]

Every file that `farpoint.io` reads is one recording; those of fewer than --least points are left
out. Distances enter the encoder as they are, so each recording is scaled until its points lie 0.1
apart (the median). A plane through its middle cuts it in two: crops of one half train, and crops of
the other, which training does not see, are what is reported on.

Training needs no labels: a decoder rebuilds each sample's points, as in `farpoint_training`. Every
third crop is of a procedural shape and every third of a ray-cast street, as before, so that what
the encoder knows is not forgotten. First the decoder alone learns to read the encoder as it is.

The report is how often a linear classifier says from which recording a crop comes, after five and
twenty crops of each: by features before and after, by hand-made statistics of the crop, and by
both. `farpoint-server --encoder tuned=tuned.safetensors` serves the result.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import farpoint
from farpoint_models import DensityEncoder, default_encoder, save_encoder
from farpoint_ops import knn
from farpoint_training.probe import described, hand_made, pooled, probe
from farpoint_training.sources import Cloud, Source, crop
from farpoint_training.trainer import Settings, Trainer, progress

GAP = 0.1
POINTS = 512
SHOTS, TRIALS = (5, 20), 20
# Share of the steps in which the decoder alone learns.
WARM_UP = 0.3


def recordings(folder: Path, least: int) -> dict[str, Cloud]:
    """The clouds below a folder by name, finite rows alone, points 0.1 apart."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in farpoint.io.SUFFIXES:
            continue
        try:
            points = farpoint.io.read_cloud(path).points
        except farpoint.errors.CloudFileError as error:
            print(f"left out: {error}")
            continue
        points = np.unique(points[np.isfinite(points).all(1)].astype(np.float64), axis=0)
        if len(points) < least:
            print(f"left out: {path.name}: {len(points)} points that differ, fewer than {least}")
            continue
        found[str(path.relative_to(folder))] = scaled(points)
    return found


def scaled(points: np.ndarray) -> Cloud:
    """From its first point, so large that the median distance to the next point is 0.1."""
    local = (points - points[0]).astype(np.float32)
    some = torch.from_numpy(local[:: max(1, len(local) // 2000)].copy())[None]
    gap = knn(torch.from_numpy(local)[None], some, 2)[1][..., 1].sqrt().median()
    grown: Cloud = local * np.float32(GAP / max(float(gap), 1e-9))
    return grown


def halves(cloud: Cloud) -> tuple[Cloud, Cloud]:
    """The parts before and behind a plane across its longer horizontal axis."""
    axis = int(np.ptp(cloud[:, 1]) > np.ptp(cloud[:, 0]))
    order = np.argsort(cloud[:, axis], kind="stable")
    middle = len(order) // 2
    return cloud[order[:middle]], cloud[order[middle:]]


def crops_of(clouds: Sequence[Cloud]) -> Source:
    """Crops of recordings, each as often as any other."""
    return lambda points, rng: crop(clouds[int(rng.integers(len(clouds)))], points, rng)


def tune(seen: Sequence[Cloud], steps: int, learning_rate: float) -> DensityEncoder:
    """The shipped encoder after so many steps."""
    settings = Settings(default_encoder().config, steps=steps, learning_rate=learning_rate)
    trainer = Trainer(settings)
    trainer.encoder.load_state_dict(default_encoder().state_dict())
    trainer.sources.append(crops_of(seen))
    update = progress(steps)
    for step in range(steps):
        trainer.encoder.requires_grad_(step >= WARM_UP * steps)
        update(step + 1, trainer.step())
    return trainer.encoder.eval()


def crop_set(clouds: Sequence[Cloud], each: int, seed: int) -> tuple[Tensor, Tensor]:
    """`each` crops of every recording (B, POINTS, 3), and the number of the recording (B,)."""
    rng = np.random.default_rng(seed)
    drawn = [crop(cloud, POINTS, rng) for cloud in clouds for _ in range(each)]
    return torch.from_numpy(np.stack(drawn)), torch.arange(len(clouds)).repeat_interleave(each)


def accuracies(known: Tensor, labels: Tensor, unknown: Tensor, truth: Tensor) -> list[float]:
    """Of a linear classifier, for each number of examples."""
    place = torch.arange(len(labels)) % max(SHOTS)
    return [probe(known[place < few], labels[place < few], unknown, truth) for few in SHOTS]


def report(tuned: DensityEncoder, held: Sequence[Cloud]) -> str:
    """A table in Markdown. Examples are crops of one half of what was held back, trials of the
    other."""
    both = [halves(cloud) for cloud in held]
    known, labels = crop_set([one for one, _ in both], max(SHOTS), seed=1)
    trials, truth = crop_set([other for _, other in both], TRIALS, seed=2)
    describers = {
        "encoder as shipped": pooled(default_encoder()),
        "encoder fine-tuned": pooled(tuned),
        "hand-made statistics": hand_made,
    }
    found = {n: (described(d, known), described(d, trials)) for n, d in describers.items()}
    shipped, after, statistics = found.values()
    joined = {"shipped and statistics": shipped, "fine-tuned and statistics": after}
    for name, features in joined.items():
        pairs = zip(features, statistics, strict=True)
        one, other = (torch.cat(pair, 1) for pair in pairs)
        found[name] = one, other
    lines = ["| described by |" + "|".join(f" {few} crops " for few in SHOTS) + "|"]
    lines.append("|---" * (1 + len(SHOTS)) + "|")
    for name, (examples, unknown) in found.items():
        shares = accuracies(examples, labels, unknown, truth)
        lines.append(f"| {name} |" + "|".join(f" {share:.3f} " for share in shares) + "|")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tuned.safetensors"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--least", type=int, default=2000, help="points of a recording")
    options = parser.parse_args()
    found = recordings(options.folder, options.least)
    if len(found) < 2:
        parser.error(f"{options.folder}: expected two recordings or more, found {len(found)}")
    print(f"{len(found)} recordings: {', '.join(found)}")
    begun = time.monotonic()
    parts = [halves(cloud) for cloud in found.values()]
    tuned = tune([seen for seen, _ in parts], options.steps, options.learning_rate)
    trained = {"base": "density_small", "steps": str(options.steps)}
    save_encoder(tuned, options.out, trained)
    print(f"{options.steps} steps in {time.monotonic() - begun:.0f} s; {options.out}")
    print(report(tuned, [held for _, held in parts]))


if __name__ == "__main__":
    main()
