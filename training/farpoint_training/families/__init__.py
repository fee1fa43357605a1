"""Point clouds of procedural shapes, for training and for trying models; numpy only.

Eighteen families of surfaces, no two samples alike: proportions, size, heading, density and noise
are drawn anew for each. A model may train on `TRAINING` and be tried on the classes `HELD_OUT`.
"""

from farpoint_training.families.families import FAMILIES
from farpoint_training.families.sampling import sample_shape

HELD_OUT = ("bowl", "capsule", "helix", "pyramid", "saddle", "table")
TRAINING = tuple(name for name in FAMILIES if name not in HELD_OUT)

__all__ = ["FAMILIES", "HELD_OUT", "TRAINING", "sample_shape"]
