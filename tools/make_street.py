"""Command that writes the street of the page: the demo's scan, packed to a third of a megabyte.

python tools/make_street.py

Four columns of all points, gzipped: x, y and z as steps from the point before in whole
centimeters (int16, little-endian), then the intensity (uint8).
"""

import gzip
from pathlib import Path

import numpy as np

from farpoint_training.scenes import lidar_scan

OUTPUT = Path("web/src/assets/street.bin")


def main() -> None:
    scan = lidar_scan()
    centimeters = np.rint(scan[:, :3] * 100).astype(np.int16)
    steps = np.diff(centimeters, axis=0, prepend=np.zeros((1, 3), np.int16)).astype("<i2")
    shades = np.rint(scan[:, 3] * 255).astype(np.uint8)
    content = steps.T.tobytes() + shades.tobytes()
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    main()
