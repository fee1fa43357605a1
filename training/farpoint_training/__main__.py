"""Trains an encoder and its decoders without labels.

Features that a rotation does not change, and those that a turn about the z axis does not, learn to
be alike at one place in two views, and unlike elsewhere; the others to rebuild the cloud. Clouds
are procedural shapes and rooms, and parts of ray-cast LiDAR scans, made on the fly.

Writes OUT/encoder.safetensors and OUT/decoders.safetensors.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from farpoint_models.checkpoint import save_decoders, save_encoder
from farpoint_models.config import EncoderConfig
from farpoint_training.trainer import Settings, Trainer, progress

SMALL = EncoderConfig((0.25,) * 4, channels=64, hidden=16, invariant=32, upright=16)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m farpoint_training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what is written")
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--points", type=int, default=Settings.points, help="points in a step")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--learning-rate", type=float, default=Settings.learning_rate)
    parser.add_argument("--rates", type=float, nargs="+", default=SMALL.rates)
    for name in ("channels", "hidden", "neighbors", "groups", "invariant", "upright"):
        parser.add_argument(f"--{name}", type=int, default=getattr(SMALL, name))
    return parser


def settings_of(args: argparse.Namespace) -> Settings:
    names = ("rates", "channels", "hidden", "neighbors", "groups", "invariant", "upright")
    encoder = EncoderConfig(**{name: getattr(args, name) for name in names})
    if not encoder.invariant:
        raise ValueError("invariant: expected 1 or more, got 0")
    return Settings(encoder, args.steps, args.points, args.seed, args.learning_rate)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        trainer = Trainer(settings_of(args))
    except (ValueError, OSError) as problem:
        print(f"farpoint_training: {problem}", file=sys.stderr)
        return 2
    update = progress(args.steps)
    while trainer.step_count < args.steps:
        losses = trainer.step()
        update(trainer.step_count, losses)
    notes = {"trained": json.dumps(trainer.settings.describe())}
    save_encoder(trainer.encoder, args.out / "encoder.safetensors", notes)
    save_decoders(trainer.decoders, args.out / "decoders.safetensors", notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
