"""Pages of the API reference: which modules they show; mkdocstrings reads the docstrings."""

PAGES = {
    "farpoint": (
        "The client, without torch. `pip install farpoint`.",
        ("farpoint", "farpoint.errors", "farpoint.io", "farpoint.transforms"),
    ),
    "farpoint_ops": (
        "The ops for PyTorch, without gRPC. `pip install farpoint-ops`.",
        (
            "farpoint_ops.fps",
            "farpoint_ops.fps_ragged",
            "farpoint_ops.voxel_grid",
            "farpoint_ops.methods",
            "farpoint_ops.gather",
            "farpoint_ops.interpolate",
            "farpoint_ops.neighbors",
            "farpoint_ops.arrays",
            "farpoint_ops.compat",
            "farpoint_ops.compat.pointnet2",
            "farpoint_ops.compat.pointnet2_stack",
            "farpoint_ops.compat.pointnet2_batch_cuda",
            "farpoint_ops.compat.pointnet2_ext",
            "farpoint_ops.compat.mmcv",
            "farpoint_ops.compat.torch_cluster",
            "farpoint_ops.compat.pytorch3d",
            "farpoint_ops.compat.knn_cuda",
            "farpoint_ops.compat.pointops",
            "farpoint_ops.compat.pointops.batched",
        ),
    ),
    "farpoint_models": (
        "Models built on the ops; they come with `farpoint-server`.",
        ("farpoint_models",),
    ),
}


def render_api(package: str) -> str:
    """The page of a package, as mkdocstrings wants it."""
    text, modules = PAGES[package]
    return "\n\n".join([f"# {package}", text, *(f"::: {module}" for module in modules)]) + "\n"
