"""Fine-tunes the shipped encoder on recorded scans of a folder, and says what that was worth.

    python examples/finetune_encoder.py tests/data --out tuned.safetensors [--steps 200]

Every cloud that `farpoint.io` reads is one scan; those of fewer than --least points are left out.
Every third scan is held out, and training sees the others alone: crops of them and, as often, the
procedural clouds of `farpoint_training`, so that what the encoder knows is not forgotten. It needs
no labels.

The report is the share of right matches by nearest features between two views of crops of the scans
that were held out, any way up, before and after.
`farpoint-server --encoder tuned=tuned.safetensors` serves the result.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

import farpoint
from farpoint_models import DensityEncoder, default_encoder, save_encoder
from farpoint_ops import gather_points
from farpoint_training.contrast import matched
from farpoint_training.sources import Cloud, Source, View, crop, views
from farpoint_training.trainer import Settings, Trainer

HELD_OUT = 3
TRIALS, POINTS, STAGE = 16, 2048, 1


def clouds_of(path: Path, least: int) -> Iterator[tuple[str, Cloud]]:
    """The clouds of a file, by name: distinct finite points, from the first."""
    arrays = np.load(path).files if path.suffix == ".npz" else [None]
    for array in arrays:
        try:
            points = farpoint.io.read_cloud(path, array=array).points
        except farpoint.errors.CloudFileError as error:
            print(f"left out: {error}")
            return
        points = points[np.isfinite(points).all(1) & points.any(1)].astype(np.float64)
        points = np.unique(points, axis=0)
        if len(points) >= least:
            name = path.name if array is None else f"{path.name}:{array}"
            yield name, (points - points[0]).astype(np.float32)


def recordings(folder: Path, least: int) -> dict[str, Cloud]:
    """The clouds below a folder by name."""
    paths = (p for p in sorted(folder.rglob("*")) if p.suffix.lower() in farpoint.io.SUFFIXES)
    return {name: cloud for path in paths for name, cloud in clouds_of(path, least)}


def crops_of(clouds: Sequence[Cloud]) -> Source:
    """Crops of scans, each scan as often as any other."""
    return lambda points, rng: crop(clouds[int(rng.integers(len(clouds)))], points, rng)


def tune(seen: Sequence[Cloud], steps: int, learning_rate: float) -> DensityEncoder:
    """The shipped encoder after so many steps."""
    encoder = default_encoder()
    trainer = Trainer(Settings(encoder.config, steps=steps, learning_rate=learning_rate))
    trainer.encoder.load_state_dict(encoder.state_dict())
    trainer.sources += [crops_of(seen)] * len(trainer.sources)
    trainer.run()
    return trainer.encoder.eval()


@torch.no_grad()
def match_rate(encoder: DensityEncoder, cloud: Cloud) -> float:
    """Mean share of right matches between two views of crops of a cloud."""
    rng, rates = np.random.default_rng(1), []

    def described(view: View) -> tuple[torch.Tensor, torch.Tensor]:
        stage = encoder(view.seen)[STAGE]
        features = stage.features[:, : encoder.config.invariant]
        return features, gather_points(view.places.mT, stage.indices).mT

    for _ in range(TRIALS):
        one, other = views([crops_of([cloud])], POINTS, rng, tilt=180, sizes=(POINTS,))
        (features, places), (others, other_places) = described(one), described(other)
        rates.append(matched(features, others, places, other_places))
    return float(np.mean(rates))


def report(tuned: DensityEncoder, held: dict[str, Cloud]) -> str:
    """A table in Markdown."""
    shipped, lines = (
        default_encoder(),
        ["| held-out scan | as shipped | fine-tuned |", "|---|---|---|"],
    )
    rates = {n: [match_rate(model, c) for model in (shipped, tuned)] for n, c in held.items()}
    rates["mean"] = np.mean(list(rates.values()), 0).tolist()
    lines += [f"| {name} | {before:.3f} | {after:.3f} |" for name, (before, after) in rates.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tuned.safetensors"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--least", type=int, default=2000, help="points of a scan")
    options = parser.parse_args()
    found = recordings(options.folder, options.least)
    if len(found) < HELD_OUT:
        parser.error(f"{options.folder}: expected {HELD_OUT} scans or more, found {len(found)}")
    held = dict(list(found.items())[HELD_OUT - 1 :: HELD_OUT])
    print(f"{len(found)} scans, {len(held)} held out: {', '.join(held)}", flush=True)
    begun = time.monotonic()
    seen = [cloud for name, cloud in found.items() if name not in held]
    tuned = tune(seen, options.steps, options.learning_rate)
    trained = {"base": "density_small", "steps": str(options.steps)}
    save_encoder(tuned, options.out, trained)
    print(f"{options.steps} steps in {time.monotonic() - begun:.0f} s; {options.out}")
    print(report(tuned, held))


if __name__ == "__main__":
    main()
