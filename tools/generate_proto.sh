#!/usr/bin/env bash
# Writes the Python code of proto/farpoint below the source root $1, and of proto/inference below $2.
set -euo pipefail
cd "$(dirname "$0")/.."
# proto/google is there for other languages; in Python googleapis-common-protos has its code.
python -m grpc_tools.protoc -Iproto \
  --python_out="$1" --grpc_python_out="$1" --mypy_out="quiet:$1" --mypy_grpc_out="quiet:$1" \
  $(cd proto && find farpoint -name '*.proto' | sort)

# Its package, `inference`, is what other packages register as well; in a pool of its own it cannot
# collide with theirs.
module=farpoint_server/codec/open_inference/v2
python -m grpc_tools.protoc -I$module=proto/inference \
  --python_out="$2" --grpc_python_out="$2" --mypy_out="quiet:$2" --mypy_grpc_out="quiet:$2" \
  $module/open_inference.proto
sed -i 's/_descriptor_pool\.Default()/_descriptor_pool.DescriptorPool()/' "$2/$module/open_inference_pb2.py"
