#!/usr/bin/env bash
# Writes the Python code of proto/ below the source root $1.
set -euo pipefail
cd "$(dirname "$0")/.."
to=(--python_out="$1" --grpc_python_out="$1" --mypy_out="quiet:$1" --mypy_grpc_out="quiet:$1")
# proto/google is there for other languages; in Python googleapis-common-protos has its code.
python -m grpc_tools.protoc -Iproto "${to[@]}" $(cd proto && find farpoint -name '*.proto' | sort)
# A contract without a service has no stubs.
grep -L "^service " proto/farpoint/v1/*.proto | while read -r file; do
  rm "$1/farpoint/v1/$(basename "$file" .proto)"_pb2_grpc.py*
done

# Its package, `inference`, is what other packages register as well; in a pool of its own it cannot
# collide with theirs.
module=farpoint/inference
python -m grpc_tools.protoc -I$module=proto/inference "${to[@]}" $module/open_inference.proto
sed -i 's/_descriptor_pool\.Default()/_descriptor_pool.DescriptorPool()/' "$1/$module/open_inference_pb2.py"
