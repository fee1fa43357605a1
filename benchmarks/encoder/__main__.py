"""Measures what an encoder's features are worth, and writes benchmarks/results/encoder.json.

    python -m benchmarks.encoder                        # the shipped weights, on tests/data
    python -m benchmarks.encoder --recordings FOLDER    # on the whole files of tests/data/README.md

FPFH needs Open3D (`pip install open3d`), Draco `pip install DracoPy`.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.encoder.compression import compression
from benchmarks.encoder.probes import ground, shapes
from benchmarks.encoder.registration import pairs, registration
from farpoint_models import DensityEncoder, default_encoder, load_encoder

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "encoder.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", type=Path, help="a safetensors file; the shipped one without")
    parser.add_argument("--recordings", type=Path, default=ROOT / "tests" / "data")
    parser.add_argument("--only", choices=("shapes", "registration", "ground", "compression"))
    options = parser.parse_args()
    trained = load_encoder(options.encoder) if options.encoder else default_encoder()
    torch.set_num_threads(1)  # the same sums on every machine
    torch.manual_seed(0)
    encoders = {"trained": trained, "untrained": DensityEncoder(trained.config).eval()}
    whole = options.recordings.resolve() != ROOT / "tests" / "data"
    name = "whole recordings" if whole else "tests/data"
    tasks: dict[str, Callable[[], object]] = {
        "shapes": lambda: shapes(encoders),
        "registration": lambda: registration(encoders, pairs(options.recordings)),
        "ground": lambda: ground(encoders, options.recordings),
        "compression": lambda: compression(trained, options.recordings),
    }
    for task, measure in tasks.items():
        if options.only in (None, task):
            found = json.loads(
                json.dumps(measure()), parse_float=lambda text: round(float(text), 3)
            )
            print(json.dumps({task: found}, indent=1), flush=True)
            if not options.encoder:
                results = json.loads(RESULTS.read_text())
                results.setdefault(name, {})[task] = found
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
