"""Trains an encoder and its decoders without labels.

Features that a rotation does not change, and those that a turn about the z axis does not, learn to
be alike at one place in two views, and unlike elsewhere; the others to rebuild the cloud. Clouds
are procedural shapes and rooms, and parts of ray-cast LiDAR scans, made on the fly.

Writes OUT/encoder.safetensors and OUT/decoders.safetensors.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from farpoint_models.checkpoint import save_decoders, save_encoder
from farpoint_models.config import EncoderConfig
from farpoint_training.trainer import Settings, Trainer

SMALL = EncoderConfig((0.25,) * 4, channels=64, hidden=16, invariant=32, upright=16)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m farpoint_training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what is written")
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(Settings(SMALL, steps=args.steps, seed=args.seed))
    trainer.run()
    notes = {"trained": json.dumps(asdict(trainer.settings))}
    save_encoder(trainer.encoder, args.out / "encoder.safetensors", notes)
    save_decoders(trainer.decoders, args.out / "decoders.safetensors", notes)


if __name__ == "__main__":
    main()
