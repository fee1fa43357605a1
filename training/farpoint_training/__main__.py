"""Trains an encoder without labels.

A decoder rebuilds, from each sample's feature, the points that collapsed into it and how many they
were. Clouds are procedural shapes and parts of ray-cast LiDAR scans, made on the fly.

Writes OUT/encoder.safetensors and OUT/report.json.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from farpoint_models.checkpoint import save_encoder
from farpoint_models.config import EncoderConfig
from farpoint_training.report import report
from farpoint_training.trainer import Settings, Trainer, progress

SMALL = EncoderConfig(rates=(0.25, 0.25, 0.25, 0.25), channels=64, hidden=32, neighbors=16)


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
    for name in ("channels", "hidden", "neighbors", "groups"):
        parser.add_argument(f"--{name}", type=int, default=getattr(SMALL, name))
    return parser


def settings_of(args: argparse.Namespace) -> Settings:
    encoder = EncoderConfig(
        tuple(args.rates), args.channels, args.hidden, args.neighbors, args.groups
    )
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
        update(trainer.step_count + 1, trainer.step())
    found = report(trainer)
    (args.out / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    settings = json.dumps(trainer.settings.describe())
    save_encoder(trainer.encoder, args.out / "encoder.safetensors", {"trained": settings})
    return 0


if __name__ == "__main__":
    sys.exit(main())
