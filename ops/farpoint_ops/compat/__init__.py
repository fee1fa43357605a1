"""Drop-in replacements of other libraries: a model runs after one changed import.

* `farpoint_ops.compat.pointnet2` for ``pointnet2_ops.pointnet2_utils`` of Pointnet2_PyTorch, and
  the many copies of it, VoteNet's and OpenPCDet's among them;
* `farpoint_ops.compat.pointops` for the ``pointops`` with offsets of Point Transformer and
  Pointcept;
* `farpoint_ops.compat.pointops.batched` for the batched ``pointops`` of D-PCC and PointWeb;
* `farpoint_ops.compat.pointnet2_stack` for OpenPCDet's ``pointnet2_stack.pointnet2_utils``;
* `farpoint_ops.compat.torch_cluster`, `pytorch3d` and `knn_cuda` for the point cloud ops of these.

What differs from the originals, for all of them:

* any device, any strides, float16 and bfloat16 as well as float32;
* sampling is exact: ties go to the lowest index, no index repeats, no point near the origin is
  skipped, and more samples than points are an error;
* neighbors are sorted by distance, the lowest index first on a tie, and k has no limit;
* a weight gets its true gradient where the original returned zeros or none, and every gradient can
  be differentiated again;
* an error is a TypeError, ValueError or IndexError that names an argument of the function called;
* compiled and exported code may call them with free sizes.
"""
