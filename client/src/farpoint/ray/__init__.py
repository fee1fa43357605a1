"""Sampling on a Ray cluster, without a server: each actor has the ops of `farpoint-ops`.

    import farpoint.ray
    clouds = ray.data.read_parquet("s3://bucket/clouds")
    farpoint.ray.sample_dataset(clouds, 1024, num_gpus=0.25).write_parquet("s3://bucket/sampled")

Needs the extra `ray`; torch is imported where the clouds are sampled, not here. `farpoint sample
FOLDER --ray` samples files the same way; docs/ray.md has both.
"""

from farpoint.ray.dataset import sample_dataset

__all__ = ["sample_dataset"]
